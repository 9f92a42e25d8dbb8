/* What every statement block of docs/cxx.md may use. */
#include <diffdispatch/diffdispatch.hpp>

#include <cstdio>

namespace dd = diffdispatch;

extern const dd::context context;
extern const dd::device device;
extern const dd::stream stream;
extern const dd::kernel mul;
extern const dd::tensor a, b, y;
extern const dd::report report;
extern uint64_t address, gradient;
