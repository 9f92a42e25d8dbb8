// subgroups.glsl - what scatter.glsl asks of subgroups.
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_KHR_shader_subgroup_vote : require
#extension GL_KHR_shader_subgroup_ballot : require
#extension GL_KHR_shader_subgroup_shuffle : require
#ifdef PARTITIONED
#extension GL_NV_shader_subgroup_partitioned : require
#endif
