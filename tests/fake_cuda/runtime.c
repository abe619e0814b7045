/* libcudart.so.13 of the fake device: what torch's libraries ask of it, passed on to libcuda.so.1.

   A kernel of torch's own is never run: launching one prints its name and is an error that stays, as
   after a fault. torch's operators are computed before they get here (hook.py), kernels of Triton
   come through the driver. Contents are there at once; who waits for the device waits for its clock. */
#define _GNU_SOURCE
#include <cuda_runtime_api.h>
#include <dlfcn.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "device.h"

#undef cudaGetDeviceProperties
#undef cudaStreamGetCaptureInfo
#undef cudaGraphNodeGetDependencies

int fake_cuda_unsupported(void);

/* ---- the driver, found when it is first asked for, as the real one is ---- */

static void *library;
static const struct fake_device *driver;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static int refused; /* the first kernel of torch's own leaves this behind */
static __thread int last;

static void find_driver(void) {
  library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_GLOBAL);
  const struct fake_device *(*get)(void) = library ? dlsym(library, "fake_cuda_device") : 0;
  driver = get ? get() : 0;
}

static const struct fake_device *device(void) {
  pthread_once(&once, find_driver);
  return driver;
}

static cudaError_t told(int error) {
  if (error) last = error;
  return error;
}

/* The device with its context, or an error. */
static int opened(void) {
  if (!device()) return cudaErrorInsufficientDriver;
  int error = device()->open();
  if (!error) error = refused;
  return error ? error : device()->failed();
}

/* ---- devices ---- */

cudaError_t cudaGetDeviceCount(int *count) {
  int error = device() ? device()->begin() : cudaErrorInsufficientDriver;
  return *count = !error, told(error);
}
cudaError_t cudaGetDevice(int *number) { return *number = 0, cudaSuccess; }
cudaError_t cudaSetDevice(int number) { return told(number ? cudaErrorInvalidDevice : opened()); }
cudaError_t cudaDriverGetVersion(int *version) { return *version = device() ? 13000 : 0, cudaSuccess; }
cudaError_t cudaRuntimeGetVersion(int *version) { return *version = 13000, cudaSuccess; }
cudaError_t cudaGetDeviceProperties(struct cudaDeviceProp *found, int number) {
  size_t unused;
  if (!device()) return told(cudaErrorInsufficientDriver);
  memset(found, 0, sizeof *found);
  snprintf(found->name, sizeof found->name, "%s", device()->name());
  device()->memory(&unused, &found->totalGlobalMem);
#define ASKED(field, number) found->field = device()->attribute(cudaDevAttr##number)
  ASKED(major, ComputeCapabilityMajor);
  ASKED(minor, ComputeCapabilityMinor);
  ASKED(multiProcessorCount, MultiProcessorCount);
  ASKED(warpSize, WarpSize);
  ASKED(maxThreadsPerBlock, MaxThreadsPerBlock);
  ASKED(maxThreadsPerMultiProcessor, MaxThreadsPerMultiProcessor);
  ASKED(maxBlocksPerMultiProcessor, MaxBlocksPerMultiprocessor);
  ASKED(sharedMemPerBlock, MaxSharedMemoryPerBlock);
  ASKED(sharedMemPerBlockOptin, MaxSharedMemoryPerBlockOptin);
  ASKED(sharedMemPerMultiprocessor, MaxSharedMemoryPerMultiprocessor);
  ASKED(regsPerBlock, MaxRegistersPerBlock);
  ASKED(regsPerMultiprocessor, MaxRegistersPerMultiprocessor);
  ASKED(l2CacheSize, L2CacheSize);
  ASKED(memoryBusWidth, GlobalMemoryBusWidth);
  ASKED(unifiedAddressing, UnifiedAddressing);
  ASKED(cooperativeLaunch, CooperativeLaunch);
  int most[] = {1024, 1024, 64, 2147483647, 65535, 65535};
  memcpy(found->maxThreadsDim, most, sizeof found->maxThreadsDim);
  memcpy(found->maxGridSize, most + 3, sizeof found->maxGridSize);
  found->textureAlignment = 512;
  found->pciBusID = 1;
  return cudaSuccess;
}
cudaError_t cudaDeviceGetAttribute(int *value, enum cudaDeviceAttr number, int device_number) {
  if (!device()) return told(cudaErrorInsufficientDriver);
  return *value = device()->attribute(number), cudaSuccess;
}
cudaError_t cudaDeviceGetStreamPriorityRange(int *least, int *greatest) {
  return *least = 0, *greatest = -5, cudaSuccess;
}
cudaError_t cudaDeviceCanAccessPeer(int *can, int one, int other) { return *can = 0, cudaSuccess; }
cudaError_t cudaDeviceGetPCIBusId(char *text, int bytes, int number) {
  return snprintf(text, bytes, "0000:01:00.0"), cudaSuccess;
}
cudaError_t cudaDeviceSynchronize(void) {
  int error = opened();
  return told(error ? error : device()->settle());
}

/* ---- errors ---- */

const char *cudaGetErrorName(cudaError_t error) { return device() ? device()->error_name(error) : "cudaError"; }
const char *cudaGetErrorString(cudaError_t error) {
  return device() ? device()->error_text(error) : "CUDA driver version is insufficient for CUDA runtime version";
}
cudaError_t cudaPeekAtLastError(void) { return refused ? refused : last; }
cudaError_t cudaGetLastError(void) {
  int error = cudaPeekAtLastError();
  return last = 0, error;
}

/* ---- memory ---- */

cudaError_t cudaMalloc(void **place, size_t bytes) {
  int error = opened();
  return told(error ? error : device()->allocate(place, bytes, FAKE_DEVICE_MEMORY));
}
cudaError_t cudaFree(void *place) {
  int error = opened();
  return told(error ? error : device()->release(place));
}
cudaError_t cudaHostAlloc(void **place, size_t bytes, unsigned flags) {
  int error = opened();
  return told(error ? error : device()->allocate(place, bytes, FAKE_PINNED_MEMORY));
}
cudaError_t cudaFreeHost(void *place) { return cudaFree(place); }
cudaError_t cudaHostRegister(void *place, size_t bytes, unsigned flags) { return told(opened()); }
cudaError_t cudaHostUnregister(void *place) { return told(opened()); }
cudaError_t cudaMemGetInfo(size_t *free_bytes, size_t *all_bytes) {
  int error = opened();
  if (!error) device()->memory(free_bytes, all_bytes);
  return told(error);
}
cudaError_t cudaMemcpy(void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind) {
  int error = opened();
  if (!error) error = device()->settle();
  if (!error) memmove(to, from, bytes);
  return told(error);
}
cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind, cudaStream_t stream) {
  int error = opened();
  if (!error) memmove(to, from, bytes);
  return told(error);
}
cudaError_t cudaMemcpyPeerAsync(void *to, int to_device, const void *from, int from_device, size_t bytes,
                                cudaStream_t stream) {
  return cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, stream);
}
cudaError_t cudaMemcpy2DAsync(void *to, size_t to_pitch, const void *from, size_t from_pitch, size_t width,
                              size_t height, enum cudaMemcpyKind kind, cudaStream_t stream) {
  int error = opened();
  for (size_t row = 0; row < height && !error; row++)
    memmove((char *)to + row * to_pitch, (const char *)from + row * from_pitch, width);
  return told(error);
}
cudaError_t cudaMemcpyToSymbol(const void *symbol, const void *from, size_t bytes, size_t offset,
                               enum cudaMemcpyKind kind) {
  return told(cudaErrorNotSupported);
}
cudaError_t cudaMemset(void *place, int value, size_t bytes) {
  int error = opened();
  if (!error) memset(place, value, bytes);
  return told(error);
}
cudaError_t cudaMemsetAsync(void *place, int value, size_t bytes, cudaStream_t stream) {
  return cudaMemset(place, value, bytes);
}
cudaError_t cudaPointerGetAttributes(struct cudaPointerAttributes *found, const void *place) {
  memset(found, 0, sizeof *found);
  int error = opened(), kind = error ? 0 : device()->kind_of(place);
  found->type = kind == FAKE_DEVICE_MEMORY   ? cudaMemoryTypeDevice
                : kind == FAKE_PINNED_MEMORY ? cudaMemoryTypeHost
                                             : cudaMemoryTypeUnregistered;
  found->device = kind ? 0 : -2;
  found->hostPointer = (void *)place;
  found->devicePointer = kind ? (void *)place : 0;
  return told(error);
}

/* ---- streams, events, graphs ---- */

static cudaError_t new_stream(cudaStream_t *made) {
  static uintptr_t number = 0x1000;
  return *made = (cudaStream_t)__atomic_add_fetch(&number, 16, __ATOMIC_SEQ_CST), told(opened());
}
cudaError_t cudaStreamCreate(cudaStream_t *made) { return new_stream(made); }
cudaError_t cudaStreamCreateWithPriority(cudaStream_t *made, unsigned flags, int priority) {
  return new_stream(made);
}
cudaError_t cudaStreamDestroy(cudaStream_t stream) { return cudaSuccess; }
cudaError_t cudaStreamGetPriority(cudaStream_t stream, int *priority) { return *priority = 0, cudaSuccess; }
cudaError_t cudaStreamQuery(cudaStream_t stream) { return told(opened()); }
cudaError_t cudaStreamSynchronize(cudaStream_t stream) { return cudaDeviceSynchronize(); }
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned flags) { return told(opened()); }

cudaError_t cudaEventCreate(cudaEvent_t *made) {
  return *made = calloc(1, sizeof(double)), told(*made ? opened() : cudaErrorMemoryAllocation);
}
cudaError_t cudaEventCreateWithFlags(cudaEvent_t *made, unsigned flags) { return cudaEventCreate(made); }
cudaError_t cudaEventDestroy(cudaEvent_t event) { return free(event), cudaSuccess; }
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  int error = opened();
  if (!error) *(double *)event = device()->queued_until();
  return told(error);
}
cudaError_t cudaEventRecordWithFlags(cudaEvent_t event, cudaStream_t stream, unsigned flags) {
  return cudaEventRecord(event, stream);
}
cudaError_t cudaEventQuery(cudaEvent_t event) { return told(opened()); }
cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  int error = opened();
  if (!error) device()->wait_until(*(double *)event);
  return told(error);
}
cudaError_t cudaEventElapsedTime(float *ms, cudaEvent_t begin, cudaEvent_t end) {
  return *ms = (float)(1e3 * (*(double *)end - *(double *)begin)), told(opened());
}

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, enum cudaStreamCaptureMode mode) {
  int error = opened();
  return told(error ? error : device()->begin_capture(stream));
}
cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t *graph) {
  int error = opened();
  return told(error ? error : device()->end_capture(stream, (void **)graph));
}
cudaError_t cudaStreamIsCapturing(cudaStream_t stream, enum cudaStreamCaptureStatus *status) {
  return *status = device() && device()->capturing(stream), cudaSuccess;
}
cudaError_t cudaStreamGetCaptureInfo(cudaStream_t stream, enum cudaStreamCaptureStatus *status,
                                     unsigned long long *id, cudaGraph_t *graph, const cudaGraphNode_t **nodes,
                                     const cudaGraphEdgeData **edges, size_t *count) {
  cudaStreamIsCapturing(stream, status);
  if (id) *id = 1;
  if (graph) *graph = 0;
  if (nodes) *nodes = 0;
  if (edges) *edges = 0;
  if (count) *count = 0;
  return cudaSuccess;
}
cudaError_t cudaThreadExchangeStreamCaptureMode(enum cudaStreamCaptureMode *mode) { return cudaSuccess; }
cudaError_t cudaGraphInstantiateWithFlags(cudaGraphExec_t *made, cudaGraph_t graph, unsigned long long flags) {
  return *made = (cudaGraphExec_t)graph, told(opened());
}
cudaError_t cudaGraphGetNodes(cudaGraph_t graph, cudaGraphNode_t *nodes, size_t *count) {
  return *count = 1, cudaSuccess;
}
cudaError_t cudaGraphLaunch(cudaGraphExec_t graph, cudaStream_t stream) {
  int error = opened();
  return told(error ? error : device()->replay(graph));
}
cudaError_t cudaGraphDestroy(cudaGraph_t graph) { return cudaSuccess; }
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t graph) { return cudaSuccess; }
cudaError_t cudaProfilerStart(void) { return cudaSuccess; }
cudaError_t cudaProfilerStop(void) { return cudaSuccess; }

/* ---- kernels of torch's own: known by name, never run ---- */

static struct named {
  const void *kernel;
  const char *name;
} *kernels;
static size_t kernel_count, kernel_room;

void **__cudaRegisterFatBinary(void *binary) {
  static void *handle[8];
  return handle;
}
void __cudaRegisterFatBinaryEnd(void **handle) {}
void __cudaUnregisterFatBinary(void **handle) {}
char __cudaInitModule(void **handle) { return 1; }
void __cudaRegisterVar(void **handle, char *host, char *place, const char *name, int external, size_t bytes,
                       int constant, int global) {}
void __cudaRegisterFunction(void **handle, const char *kernel, char *place, const char *name, int limit,
                            void *thread, void *block, void *block_size, void *grid_size, int *warp) {
  if (kernel_count == kernel_room) {
    size_t room = kernel_room ? 2 * kernel_room : 4096;
    struct named *grown = realloc(kernels, room * sizeof *kernels);
    if (!grown) return;
    kernels = grown, kernel_room = room;
  }
  kernels[kernel_count++] = (struct named){kernel, name};
}

static cudaError_t refuse(const void *kernel) {
  const char *name = "a kernel";
  for (size_t i = 0; i < kernel_count; i++)
    if (kernels[i].kernel == kernel) name = kernels[i].name;
  fprintf(stderr, "fake cuda: %s is torch's own and is not run here\n", name);
  return refused = cudaErrorNotSupported;
}

cudaError_t cudaLaunchKernel(const void *kernel, dim3 grid, dim3 block, void **params, size_t shared,
                             cudaStream_t stream) {
  return refuse(kernel);
}
cudaError_t cudaLaunchCooperativeKernel(const void *kernel, dim3 grid, dim3 block, void **params, size_t shared,
                                        cudaStream_t stream) {
  return refuse(kernel);
}
cudaError_t cudaLaunchKernelExC(const cudaLaunchConfig_t *config, const void *kernel, void **params) {
  return refuse(kernel);
}
cudaError_t __cudaLaunchKernel(cudaKernel_t kernel, dim3 grid, dim3 block, void **params, size_t shared,
                               cudaStream_t stream) {
  return refuse(kernel);
}
cudaError_t __cudaGetKernel(cudaKernel_t *found, const void *kernel) {
  return *found = (cudaKernel_t)kernel, cudaSuccess;
}
unsigned __cudaPushCallConfiguration(dim3 grid, dim3 block, size_t shared, struct CUstream_st *stream) { return 0; }
cudaError_t __cudaPopCallConfiguration(dim3 *grid, dim3 *block, size_t *shared, void *stream) {
  return cudaErrorNotSupported;
}
cudaError_t cudaFuncGetAttributes(struct cudaFuncAttributes *found, const void *kernel) {
  memset(found, 0, sizeof *found);
  found->maxThreadsPerBlock = 1024;
  found->numRegs = 32;
  found->binaryVersion = found->ptxVersion = 90;
  return cudaSuccess;
}
cudaError_t cudaFuncSetAttribute(const void *kernel, enum cudaFuncAttribute number, int value) { return cudaSuccess; }
cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int *count, const void *kernel, int threads, size_t shared) {
  return *count = 2, cudaSuccess;
}
cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int *count, const void *kernel, int threads,
                                                                   size_t shared, unsigned flags) {
  return *count = 2, cudaSuccess;
}
cudaError_t cudaGetSymbolAddress(void **place, const void *symbol) {
  static char room[1 << 16];
  return *place = room, cudaSuccess;
}

cudaError_t cudaGetDriverEntryPointByVersion(const char *name, void **found, unsigned version,
                                             unsigned long long flags,
                                             enum cudaDriverEntryPointQueryResult *status) {
  *found = device() ? dlsym(library, name) : 0;
  if (!*found) *found = (void *)fake_cuda_unsupported;
  if (status) *status = cudaDriverEntryPointSuccess;
  return cudaSuccess;
}
