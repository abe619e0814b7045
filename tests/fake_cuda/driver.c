/* libcuda.so.1 of a machine that has no GPU: the calls torch and triton make, on one imagined device. */
#define _GNU_SOURCE
#include <cuda.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "device.h"

#define CONTEXT ((CUcontext)fake_cuda_device())

static const struct fake_device *device(void) { return fake_cuda_device(); }

CUresult cuInit(unsigned flags) { return device()->begin(); }
CUresult cuDriverGetVersion(int *version) { return *version = 13000, 0; }
CUresult cuGetErrorString(CUresult error, const char **text) { return *text = device()->error_text(error), 0; }

CUresult cuGetErrorName(CUresult error, const char **name) {
  return *name = device()->driver_error_name(error), 0;
}

CUresult cuDeviceGetCount(int *count) {
  int error = device()->begin();
  return *count = !error, error;
}
CUresult cuDeviceGet(CUdevice *made, int ordinal) {
  *made = ordinal;
  return ordinal ? CUDA_ERROR_INVALID_VALUE : device()->begin();
}
CUresult cuDeviceGetName(char *name, int bytes, CUdevice number_of) {
  return snprintf(name, bytes, "%s", device()->name()), 0;
}
CUresult cuDeviceGetUuid_v2(CUuuid *uuid, CUdevice number_of) { return memset(uuid, 7, sizeof *uuid), 0; }
CUresult cuDeviceTotalMem_v2(size_t *bytes, CUdevice number_of) { size_t unused;
  return device()->memory(&unused, bytes), 0; }
CUresult cuDeviceGetAttribute(int *value, CUdevice_attribute number, CUdevice number_of) {
  return *value = device()->attribute(number), 0;
}
CUresult cuDevicePrimaryCtxGetState(CUdevice number_of, unsigned *flags, int *active) {
  return *flags = 0, *active = device()->is_open(), 0;
}
CUresult cuDevicePrimaryCtxRetain(CUcontext *context, CUdevice number_of) {
  return *context = CONTEXT, device()->open();
}
CUresult cuDevicePrimaryCtxRelease_v2(CUdevice number_of) { return 0; }
CUresult cuCtxGetCurrent(CUcontext *context) {
  return *context = device()->is_open() ? CONTEXT : 0, 0;
}
CUresult cuCtxSetCurrent(CUcontext context) { return 0; }
CUresult cuCtxGetDevice(CUdevice *found) { return *found = 0, 0; }
CUresult cuCtxPushCurrent_v2(CUcontext context) { return 0; }
CUresult cuCtxPopCurrent_v2(CUcontext *context) { return *context = CONTEXT, 0; }
CUresult cuCtxSynchronize(void) { return device()->settle(); }
CUresult cuCtxGetLimit(size_t *value, CUlimit limit) { return *value = 1 << 20, 0; }
CUresult cuCtxSetLimit(CUlimit limit, size_t value) { return 0; }

CUresult cuMemAlloc_v2(CUdeviceptr *place, size_t bytes) {
  return device()->allocate((void **)place, bytes, FAKE_DEVICE_MEMORY);
}
CUresult cuMemFree_v2(CUdeviceptr place) { return device()->release((void *)place); }

CUresult cuModuleLoadData(CUmodule *module, const void *image) { return device()->load((void **)module, image); }
CUresult cuModuleLoadDataEx(CUmodule *module, const void *image, unsigned count, CUjit_option *options,
                            void **values) {
  return device()->load((void **)module, image);
}
CUresult cuModuleLoad(CUmodule *module, const char *path) {
  FILE *file = fopen(path, "rbe");
  if (!file) return CUDA_ERROR_NOT_FOUND;
  fseek(file, 0, SEEK_END);
  long bytes = ftell(file);
  rewind(file);
  char *image = calloc(1, bytes + 64);
  int whole = fread(image, 1, bytes, file) == (size_t)bytes;
  fclose(file);
  int error = whole ? device()->load((void **)module, image) : CUDA_ERROR_INVALID_VALUE;
  free(image);
  return error;
}
CUresult cuModuleUnload(CUmodule module) { return 0; /* recorded launches may still name its image */ }
CUresult cuModuleGetFunction(CUfunction *made, CUmodule module, const char *name) {
  struct fake_function *function = malloc(sizeof *function + strlen(name) + 1);
  function->module = (struct fake_module *)module;
  strcpy(function->name, name);
  return *made = (CUfunction)function, 0;
}
CUresult cuFuncGetAttribute(int *value, CUfunction_attribute number, CUfunction function) {
  *value = number == CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK ? 1024 : 0;
  if (number == CU_FUNC_ATTRIBUTE_NUM_REGS) *value = 32;
  return 0;
}
CUresult cuFuncSetAttribute(CUfunction function, CUfunction_attribute number, int value) { return 0; }
CUresult cuFuncSetCacheConfig(CUfunction function, CUfunc_cache config) { return 0; }
CUresult cuOccupancyMaxActiveClusters(int *count, CUfunction function, const CUlaunchConfig *config) {
  return *count = 1, 0;
}
CUresult cuOccupancyMaxActiveBlocksPerMultiprocessor(int *count, CUfunction function, int threads,
                                                     size_t shared) {
  return *count = 1, 0;
}
CUresult cuPointerGetAttribute(void *value, CUpointer_attribute number, CUdeviceptr place) {
  if (number != CU_POINTER_ATTRIBUTE_DEVICE_POINTER) return CUDA_ERROR_NOT_SUPPORTED;
  if (!device()->kind_of((void *)place)) return CUDA_ERROR_INVALID_VALUE;
  return *(CUdeviceptr *)value = place, 0;
}
CUresult cuStreamIsCapturing(CUstream stream, CUstreamCaptureStatus *status) {
  return *status = device()->capturing(stream), 0;
}
CUresult cuStreamSynchronize(CUstream stream) { return device()->settle(); }
CUresult cuLaunchKernelEx(const CUlaunchConfig *config, CUfunction function, void **params, void **extra) {
  unsigned grid[3] = {config->gridDimX, config->gridDimY, config->gridDimZ};
  return device()->launch((struct fake_function *)function, grid, config->hStream, params);
}
CUresult cuLaunchKernel(CUfunction function, unsigned x, unsigned y, unsigned z, unsigned bx, unsigned by,
                        unsigned bz, unsigned shared, CUstream stream, void **params, void **extra) {
  unsigned grid[3] = {x, y, z};
  return device()->launch((struct fake_function *)function, grid, stream, params);
}
CUresult cuLaunchCooperativeKernel(CUfunction function, unsigned x, unsigned y, unsigned z, unsigned bx,
                                   unsigned by, unsigned bz, unsigned shared, CUstream stream, void **params) {
  unsigned grid[3] = {x, y, z};
  return device()->launch((struct fake_function *)function, grid, stream, params);
}

CUresult cuTensorMapEncodeTiled(CUtensorMap *map, CUtensorMapDataType type, cuuint32_t rank, void *place,
                                const cuuint64_t *shape, const cuuint64_t *strides, const cuuint32_t *box,
                                const cuuint32_t *steps, CUtensorMapInterleave interleave,
                                CUtensorMapSwizzle swizzle, CUtensorMapL2promotion promotion,
                                CUtensorMapFloatOOBfill fill) {
  return CUDA_ERROR_NOT_SUPPORTED;
}
