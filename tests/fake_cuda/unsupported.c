/* Calls that torch and triton name and nothing here needs: each says that it is not supported. */
#define NOT_HERE(name) \
  int name(void) { return 801; /* CUDA_ERROR_NOT_SUPPORTED, cudaErrorNotSupported */ }

NOT_HERE(fake_cuda_unsupported)

#ifdef FAKE_DRIVER
NOT_HERE(cuLinkAddData_v2)
NOT_HERE(cuLinkComplete)
NOT_HERE(cuLinkCreate_v2)
NOT_HERE(cuTensorMapEncodeIm2col)
#else
NOT_HERE(cudaDeviceEnablePeerAccess)
NOT_HERE(cudaDeviceGetDefaultMemPool)
NOT_HERE(cudaFreeAsync)
NOT_HERE(cudaGraphDebugDotPrint)
NOT_HERE(cudaGraphNodeGetDependencies)
NOT_HERE(cudaIpcCloseMemHandle)
NOT_HERE(cudaIpcGetEventHandle)
NOT_HERE(cudaIpcGetMemHandle)
NOT_HERE(cudaIpcOpenEventHandle)
NOT_HERE(cudaIpcOpenMemHandle)
NOT_HERE(cudaLaunchHostFunc)
NOT_HERE(cudaMallocAsync)
NOT_HERE(cudaMemPoolGetAttribute)
NOT_HERE(cudaMemPoolSetAccess)
NOT_HERE(cudaMemPoolSetAttribute)
NOT_HERE(cudaMemPoolTrimTo)
NOT_HERE(cudaStreamAddCallback)
#endif
