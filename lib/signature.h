/*
 * signature.h - the encoding of signatures, between what writes it and what reads it back.
 * docs/signature.md is the specification.
 */
#ifndef DDISP_LIB_SIGNATURE_H
#define DDISP_LIB_SIGNATURE_H

#include <diffdispatch/device.h>

/** Changes with every change of the bytes of any request. */
#define DDISP__SIGNATURE_VERSION 2

/** Longest text: that of a backend's name and an architecture in ddisp_device_info. */
#define DDISP__SIGNATURE_TEXT 31

/** Layout class, beside DDISP_LAYOUT_STRIDED: some elements share memory. */
#define DDISP__SIGNATURE_OVERLAPS 8u

/** Size of the part that is the device's, at most. */
#define DDISP__SIGNATURE_HEAD 96

/** The part of every signature that is the device's: magic to features. */
typedef struct ddisp__signature_head {
    uint32_t size;
    uint8_t bytes[DDISP__SIGNATURE_HEAD];
} ddisp__signature_head;

/** Writes it; once, when a device is opened. */
void ddisp__signature_device(const ddisp_device_info *info, ddisp__signature_head *out_head);

#endif
