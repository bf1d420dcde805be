/* Restricts work to a part of the multiprocessors, with a green context: while it is current, streams, graphs and launches of this thread
 * stay inside it.  The driver's functions are looked up at run time, so that nothing links against its library. */
#include <cuda.h>
#include <cuda_runtime.h>
#include <stdio.h>

template <class F> static bool driver(F *f, const char *name)
{
    cudaDriverEntryPointQueryResult found;
    void *p = NULL;
    bool ok = cudaGetDriverEntryPointByVersion(name, &p, 12050, cudaEnableDefault, &found) == cudaSuccess && found == cudaDriverEntryPointSuccess;
    *f = (F)p;
    return ok;
}

extern "C" int gpu_confine(int n_sm, char *why, size_t n_why)
{
    CUresult (*device_get)(CUdevice *, int);
    CUresult (*resource_get)(CUdevice, CUdevResource *, CUdevResourceType);
    CUresult (*split)(CUdevResource *, unsigned *, const CUdevResource *, CUdevResource *, unsigned, unsigned);
    CUresult (*describe)(CUdevResourceDesc *, CUdevResource *, unsigned);
    CUresult (*create)(CUgreenCtx *, CUdevResourceDesc, CUdevice, unsigned);
    CUresult (*convert)(CUcontext *, CUgreenCtx);
    CUresult (*make_current)(CUcontext);
    CUdevice device;
    CUdevResource all, part, rest;
    CUdevResourceDesc desc;
    CUgreenCtx green;
    CUcontext context;
    unsigned groups = 1;
    if (cudaFree(NULL) != cudaSuccess
        || !driver(&device_get, "cuDeviceGet") || !driver(&resource_get, "cuDeviceGetDevResource") || !driver(&split, "cuDevSmResourceSplitByCount")
        || !driver(&describe, "cuDevResourceGenerateDesc") || !driver(&create, "cuGreenCtxCreate") || !driver(&convert, "cuCtxFromGreenCtx")
        || !driver(&make_current, "cuCtxSetCurrent")) {
        cudaGetLastError();
        snprintf(why, n_why, "the driver knows no green contexts");
        return 0;
    }
    CUresult r = device_get(&device, 0);
    const char *at = "cuDeviceGet";
    if (r == CUDA_SUCCESS)
        r = resource_get(device, &all, CU_DEV_RESOURCE_TYPE_SM), at = "cuDeviceGetDevResource";
    if (r == CUDA_SUCCESS && n_sm >= (int)all.sm.smCount)
        return (int)all.sm.smCount;
    if (r == CUDA_SUCCESS)
        r = split(&part, &groups, &all, &rest, 0, (unsigned)n_sm), at = "cuDevSmResourceSplitByCount";
    if (r == CUDA_SUCCESS)
        r = describe(&desc, &part, 1), at = "cuDevResourceGenerateDesc";
    if (r == CUDA_SUCCESS)
        r = create(&green, desc, device, CU_GREEN_CTX_DEFAULT_STREAM), at = "cuGreenCtxCreate";
    if (r == CUDA_SUCCESS)
        r = convert(&context, green), at = "cuCtxFromGreenCtx";
    if (r == CUDA_SUCCESS)
        r = make_current(context), at = "cuCtxSetCurrent";
    if (r == CUDA_SUCCESS)
        return (int)part.sm.smCount;
    snprintf(why, n_why, "%s fails with error %d for %d multiprocessors", at, (int)r, n_sm);
    return 0;
}

extern "C" int gpu_multiprocessors(int all)
{
    CUresult (*get_current)(CUcontext *);
    CUresult (*resource_get)(CUcontext, CUdevResource *, CUdevResourceType);
    CUcontext context;
    CUdevResource sm;
    if (!driver(&get_current, "cuCtxGetCurrent") || !driver(&resource_get, "cuCtxGetDevResource")) {
        cudaGetLastError();
        return all;
    }
    bool known = get_current(&context) == CUDA_SUCCESS && context && resource_get(context, &sm, CU_DEV_RESOURCE_TYPE_SM) == CUDA_SUCCESS;
    return known && sm.sm.smCount ? (int)sm.sm.smCount : all;
}
