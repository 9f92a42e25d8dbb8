/*
 * fake_nvrtc.h - how tests steer the stand-in compiler that tests/fakes/nvrtc builds as
 * libnvrtc.so.13. It knows sm_75 and sm_90, and makes PTX of any source: an entry of six pointers
 * or numbers for each "__global__ void NAME(" (one block of bytes for NAME(block)), with the
 * options as comments. A source with "#error" is refused with a log. Any call can be made to fail.
 */
#ifndef FAKE_NVRTC_H
#define FAKE_NVRTC_H

#include <stdint.h>

#define FAKE_NVRTC __attribute__((visibility("default")))

/** The nth call from now (1: the next) returns result; 0: none. */
FAKE_NVRTC void fake_nvrtc_fail_at(uint64_t nth, int result);
/** Whether that has happened. */
FAKE_NVRTC int fake_nvrtc_failed(void);
/** Programs alive. */
FAKE_NVRTC uint64_t fake_nvrtc_live(void);
/** Compilations so far. */
FAKE_NVRTC uint64_t fake_nvrtc_compilations(void);

#endif
