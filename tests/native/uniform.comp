// Takes a uniform buffer, which no native argument can be.
#version 450
layout(local_size_x = 64) in;
layout(set = 0, binding = 0) buffer X { float x[]; };
layout(set = 0, binding = 1) uniform Numbers { uint count; };

void main()
{
    if (gl_GlobalInvocationID.x < count)
        x[gl_GlobalInvocationID.x] = 1;
}
