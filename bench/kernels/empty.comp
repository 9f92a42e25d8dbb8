#version 460
// empty.comp - a kernel that does nothing, so that what a launch costs is all there is.
#extension GL_EXT_shader_explicit_arithmetic_types_int64 : require
layout(local_size_x = 64) in;
layout(push_constant) uniform Push { uint64_t block; };

void main()
{
}
