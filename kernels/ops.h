/* The contracts of all operations.  Every contract has, besides its args struct:
 *   <op>_bytes(a)   bytes that it must move, each input read once and each output written once
 *   <op>_units(a)   number of independent units of the CPU version; the result does not depend on how they are distributed
 * Activations are fp32.  Pointers are device memory and must not alias unless the contract allows it. */
#pragma once

#include "kernels/attention.h"
#include "kernels/conv.h"
#include "kernels/deltanet.h"
#include "kernels/embed.h"
#include "kernels/linear.h"
#include "kernels/moe.h"
#include "kernels/norm.h"
#include "kernels/rope.h"
#include "kernels/vision.h"

/* The CPU versions, which compute units [begin, end) of the operation. */
#define OP(name) void name##_cpu(const struct name##_args *a, int begin, int end);
#include "kernels/ops.def"
#undef OP
