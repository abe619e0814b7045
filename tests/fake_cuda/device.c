/* The imagined device behind libcuda.so.1 (driver.c) and libcudart.so.13 (runtime.c).

   Beside the libraries lies the file `machine`, lines of "key value": the device's name, its memory, and
   what its driver does on the machine that is imagined (see README.md). Kernels are run by whoever
   calls `fake_cuda_execute_with`; a launch without it fails, as does every call that is not known. */
#define _GNU_SOURCE
#include <cuda.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "device.h"

#define MOST_NODES 8
#define PATH_BYTES 512

/* ---- the machine that is imagined ---- */

static struct {
  char folder[PATH_BYTES];
  char name[64];
  char nodes[MOST_NODES][PATH_BYTES];
  int node_count;
  size_t memory_bytes;
  int names_threads; /* as drivers from 570 on: a thread of cuInit writes its own comm */
  int exclusive;     /* compute mode: one process at a time has a context */
  double kernel_s;   /* how long a launch of Triton's keeps the device busy */
} machine = {.name = "NVIDIA H200", .memory_bytes = (size_t)4 << 30, .names_threads = 1};

static void read_machine(void) {
  Dl_info here;
  char path[PATH_BYTES + 16], key[32], value[PATH_BYTES];
  if (!dladdr((void *)read_machine, &here) || !here.dli_fname) return;
  snprintf(machine.folder, sizeof machine.folder, "%s", here.dli_fname);
  char *end = strrchr(machine.folder, '/');
  if (!end) return;
  *end = 0;
  snprintf(path, sizeof path, "%s/machine", machine.folder);
  FILE *file = fopen(path, "re");
  if (!file) return;
  while (fscanf(file, "%31s %511[^\n]", key, value) == 2) {
    if (!strcmp(key, "name")) snprintf(machine.name, sizeof machine.name, "%.63s", value);
    if (!strcmp(key, "memory_bytes")) machine.memory_bytes = strtoull(value, 0, 10);
    if (!strcmp(key, "names_threads")) machine.names_threads = atoi(value);
    if (!strcmp(key, "exclusive")) machine.exclusive = atoi(value);
    if (!strcmp(key, "kernel_ms")) machine.kernel_s = atof(value) * 1e-3;
    if (!strcmp(key, "node") && machine.node_count < MOST_NODES)
      snprintf(machine.nodes[machine.node_count++], PATH_BYTES, "%s", value);
  }
  fclose(file);
}

/* ---- beginning, contexts, errors ---- */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static pid_t begun_by;
static int context_lock = -1;
static int has_context, left_behind;
static fake_executor executor;

static void *name_itself(void *result) {
  char path[64];
  snprintf(path, sizeof path, "/proc/self/task/%ld/comm", syscall(SYS_gettid));
  int file = open(path, O_WRONLY | O_CLOEXEC);
  if (file < 0) return result;
  if (write(file, "cuda00001400006", 15) == 15) *(int *)result = 1;
  close(file);
  return result;
}

static int begin(void) {
  pthread_once(&once, read_machine);
  if (begun_by == getpid()) return 0;
  if (begun_by) return CUDA_ERROR_NOT_INITIALIZED; /* a fork of a process that has used the device */
  for (int i = 0; i < machine.node_count; i++) {
    int node = open(machine.nodes[i], O_RDWR | O_CLOEXEC);
    if (node < 0) return i ? CUDA_ERROR_OPERATING_SYSTEM : CUDA_ERROR_NO_DEVICE;
    close(node);
  }
  if (machine.names_threads) {
    pthread_t thread;
    int named = 0;
    if (pthread_create(&thread, 0, name_itself, &named)) return CUDA_ERROR_OPERATING_SYSTEM;
    pthread_join(thread, 0);
    if (!named) return CUDA_ERROR_OPERATING_SYSTEM;
  }
  begun_by = getpid();
  return 0;
}

static int open_context(void) {
  int error = begin();
  if (error || has_context) return error;
  pthread_mutex_lock(&lock);
  if (!has_context && machine.exclusive) {
    char path[PATH_BYTES + 16];
    snprintf(path, sizeof path, "%s/machine", machine.folder);
    context_lock = open(path, O_RDONLY | O_CLOEXEC);
    if (context_lock < 0 || flock(context_lock, LOCK_EX | LOCK_NB)) {
      if (context_lock >= 0) close(context_lock);
      error = CUDA_ERROR_DEVICE_UNAVAILABLE;
    }
  }
  has_context = !error;
  pthread_mutex_unlock(&lock);
  return error;
}

static int failed(void) { return left_behind; }

static const struct {
  int number;
  const char *name, *runtime_name, *text;
} errors[] = {
    {0, "CUDA_SUCCESS", "cudaSuccess", "no error"},
    {1, "CUDA_ERROR_INVALID_VALUE", "cudaErrorInvalidValue", "invalid argument"},
    {2, "CUDA_ERROR_OUT_OF_MEMORY", "cudaErrorMemoryAllocation", "out of memory"},
    {3, "CUDA_ERROR_NOT_INITIALIZED", "cudaErrorInitializationError", "initialization error"},
    {35, "CUDA_ERROR_STUB_LIBRARY", "cudaErrorInsufficientDriver",
     "CUDA driver version is insufficient for CUDA runtime version"},
    {46, "CUDA_ERROR_DEVICE_UNAVAILABLE", "cudaErrorDevicesUnavailable",
     "CUDA-capable device(s) is/are busy or unavailable"},
    {100, "CUDA_ERROR_NO_DEVICE", "cudaErrorNoDevice", "no CUDA-capable device is detected"},
    {304, "CUDA_ERROR_OPERATING_SYSTEM", "cudaErrorOperatingSystem",
     "OS call failed or operation not supported on this OS"},
    {400, "CUDA_ERROR_INVALID_HANDLE", "cudaErrorInvalidResourceHandle", "invalid resource handle"},
    {500, "CUDA_ERROR_NOT_FOUND", "cudaErrorSymbolNotFound", "named symbol not found"},
    {719, "CUDA_ERROR_LAUNCH_FAILED", "cudaErrorLaunchFailure", "unspecified launch failure"},
    {801, "CUDA_ERROR_NOT_SUPPORTED", "cudaErrorNotSupported", "operation not supported"},
    {900, "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED", "cudaErrorStreamCaptureUnsupported",
     "operation not permitted when stream is capturing"},
};
#define ERRORS (sizeof errors / sizeof *errors)

static const char *runtime_name_of(int error) {
  for (size_t i = 0; i < ERRORS; i++)
    if (errors[i].number == error) return errors[i].runtime_name;
  return "unrecognized error code";
}

static const char *driver_name_of(int error) {
  for (size_t i = 0; i < ERRORS; i++)
    if (errors[i].number == error) return errors[i].name;
  return "CUDA_ERROR_UNKNOWN";
}

static const char *text_of(int error) {
  for (size_t i = 0; i < ERRORS; i++)
    if (errors[i].number == error) return errors[i].text;
  return "unrecognized error code";
}

/* ---- memory: the host's, known by its beginning ---- */

static struct block {
  char *place;
  size_t bytes;
  int kind;
} *blocks;
static size_t block_count, block_room, used_bytes;

static int allocate(void **place, size_t bytes, int kind) {
  int error = open_context();
  if (error || left_behind) return error ? error : left_behind;
  bytes = (bytes + 4095) & ~(size_t)4095;
  pthread_mutex_lock(&lock);
  if (kind == FAKE_DEVICE_MEMORY && used_bytes + bytes > machine.memory_bytes) error = CUDA_ERROR_OUT_OF_MEMORY;
  if (!error && block_count == block_room) {
    size_t room = block_room ? 2 * block_room : 256;
    struct block *grown = realloc(blocks, room * sizeof *blocks);
    if (grown) blocks = grown, block_room = room;
    else error = CUDA_ERROR_OUT_OF_MEMORY;
  }
  void *made = MAP_FAILED;
  if (!error) made = mmap(0, bytes ? bytes : 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (!error && made == MAP_FAILED) error = CUDA_ERROR_OUT_OF_MEMORY;
  if (!error) {
    blocks[block_count++] = (struct block){made, bytes, kind};
    if (kind == FAKE_DEVICE_MEMORY) used_bytes += bytes;
    *place = made;
  }
  pthread_mutex_unlock(&lock);
  return error;
}

static struct block *holding(const char *place) {
  for (size_t i = 0; i < block_count; i++)
    if (place >= blocks[i].place && place < blocks[i].place + blocks[i].bytes) return &blocks[i];
  return 0;
}

static int release(void *place) {
  if (!place) return 0;
  pthread_mutex_lock(&lock);
  struct block *block = holding(place);
  int error = block && block->place == place ? 0 : CUDA_ERROR_INVALID_VALUE;
  if (!error) {
    munmap(block->place, block->bytes ? block->bytes : 4096);
    if (block->kind == FAKE_DEVICE_MEMORY) used_bytes -= block->bytes;
    *block = blocks[--block_count];
  }
  pthread_mutex_unlock(&lock);
  return error;
}

static int kind_of(const void *place) {
  pthread_mutex_lock(&lock);
  struct block *block = holding(place);
  int kind = block ? block->kind : 0;
  pthread_mutex_unlock(&lock);
  return kind;
}

static void memory(size_t *free_bytes, size_t *all_bytes) {
  *all_bytes = machine.memory_bytes;
  *free_bytes = machine.memory_bytes - used_bytes;
}

/* ---- time: work is queued and done in order; who waits for the device waits until its end ----

   Where a file `clock` lies beside the libraries, it is the clock of all the machine's processes: who
   waits moves it on instead of sleeping, so that a time is what was queued and nothing of this host. */

static double idle_from;
static _Atomic double *machine_clock;

/* When the library is loaded: a confined process could not open the file any more. */
__attribute__((constructor)) static void find_clock(void) {
  char path[PATH_BYTES + 16];
  pthread_once(&once, read_machine);
  snprintf(path, sizeof path, "%s/clock", machine.folder);
  int file = open(path, O_RDWR | O_CLOEXEC);
  if (file < 0) return;
  void *place = mmap(0, sizeof *machine_clock, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  if (place != MAP_FAILED) machine_clock = place;
  close(file);
}

static double now_s(void) {
  struct timespec now;
  if (machine_clock) return *machine_clock;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec + now.tv_nsec * 1e-9;
}

static double queued_until(void) {
  double now = now_s();
  return idle_from > now ? idle_from : now;
}

static void wait_until(double seconds) {
  if (machine_clock) {
    double now = *machine_clock;
    while (now < seconds && !atomic_compare_exchange_weak(machine_clock, &now, seconds)) continue;
    return;
  }
  struct timespec end = {.tv_sec = (time_t)seconds, .tv_nsec = (long)((seconds - (time_t)seconds) * 1e9)};
  while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &end, 0) == EINTR) continue;
}

void fake_cuda_queue(double seconds) { idle_from = queued_until() + seconds; }
void fake_cuda_wait(void) { wait_until(idle_from); }

/* ---- modules, functions, launches, graphs ---- */

struct graph {
  long *tickets;
  size_t count;
};

static __thread void *captured_stream;
static __thread struct graph *captured;

static size_t elf_bytes(const unsigned char *image) {
  uint64_t sections;
  uint16_t entry, count;
  if (memcmp(image, "\177ELF", 4)) return 0;
  memcpy(&sections, image + 40, 8);
  memcpy(&entry, image + 58, 2);
  memcpy(&count, image + 60, 2);
  uint64_t end = sections + (uint64_t)entry * count, programs;
  memcpy(&programs, image + 32, 8);
  memcpy(&entry, image + 54, 2);
  memcpy(&count, image + 56, 2);
  uint64_t other = programs + (uint64_t)entry * count;
  return end > other ? end : other;
}

static int load(void **made, const void *image) {
  size_t bytes = made && image ? elf_bytes(image) : 0;
  if (!bytes) return CUDA_ERROR_INVALID_VALUE;
  struct fake_module *module = malloc(sizeof *module);
  *module = (struct fake_module){malloc(bytes), bytes};
  memcpy(module->image, image, bytes);
  *made = module;
  return 0;
}

static int launch(const struct fake_function *function, const unsigned *grid, void *stream, void **params) {
  long ticket = -1;
  int what = captured && stream == captured_stream ? FAKE_RECORD : FAKE_RUN;
  if (left_behind) return left_behind;
  if (!executor) return CUDA_ERROR_NOT_SUPPORTED;
  double end = queued_until() + machine.kernel_s; /* a GPU has begun while the host runs it here */
  int error = executor(what, function->module->image, function->module->bytes, function->name, grid,
                       params, &ticket);
  if (what == FAKE_RUN) left_behind = error, idle_from = end; /* a kernel that faults spoils its context */
  if (what == FAKE_RECORD && !error) {
    captured->tickets = realloc(captured->tickets, (captured->count + 1) * sizeof(long));
    captured->tickets[captured->count++] = ticket;
  }
  return what == FAKE_RUN ? 0 : error;
}

static int begin_capture(void *stream) {
  int error = open_context();
  if (error) return error;
  captured = calloc(1, sizeof *captured);
  captured_stream = stream;
  return 0;
}

static int end_capture(void *stream, void **graph) {
  if (!captured || stream != captured_stream) return CUDA_ERROR_INVALID_VALUE;
  *graph = captured;
  captured = 0;
  return 0;
}

static int capturing(void *stream) { return captured && stream == captured_stream; }

static int settle(void) {
  if (captured) return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  fake_cuda_wait();
  return left_behind;
}

static int replay(void *made) {
  struct graph *graph = made;
  unsigned grid[3] = {0, 0, 0};
  double end = queued_until() + graph->count * machine.kernel_s;
  for (size_t i = 0; i < graph->count && !left_behind; i++)
    left_behind = executor ? executor(FAKE_REPLAY, 0, 0, "", grid, 0, &graph->tickets[i]) : CUDA_ERROR_NOT_SUPPORTED;
  idle_from = end;
  return left_behind;
}

static int attribute(int number) {
  switch (number) {
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR: return 9;
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR: return 0;
    case CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT: return 132;
    case CU_DEVICE_ATTRIBUTE_WARP_SIZE: return 32;
    case CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK: return 1024;
    case CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR: return 2048;
    case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK: return 49152;
    case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN: return 232448;
    case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR: return 233472;
    case CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_BLOCK: return 65536;
    case CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_MULTIPROCESSOR: return 65536;
    case CU_DEVICE_ATTRIBUTE_CLOCK_RATE: return 1980000;
    case CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE: return 3201000;
    case CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH: return 6144;
    case CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE: return 50 << 20;
    case CU_DEVICE_ATTRIBUTE_COMPUTE_MODE: return machine.exclusive ? 3 : 0;
    case CU_DEVICE_ATTRIBUTE_MAX_BLOCKS_PER_MULTIPROCESSOR: return 32;
    case CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING: return 1;
    case CU_DEVICE_ATTRIBUTE_COOPERATIVE_LAUNCH: return 1;
    default: return 0;
  }
}

static const char *device_name(void) { return machine.name; }
static int opened(void) { return has_context; }

const struct fake_device *fake_cuda_device(void) {
  static const struct fake_device device = {
      begin,        open_context, failed,      allocate,  release, kind_of, memory,          attribute,
      device_name,  begin_capture, end_capture, capturing, settle,  replay,  runtime_name_of, text_of,
      driver_name_of, opened, load, launch, queued_until, wait_until,
  };
  return &device;
}

void fake_cuda_execute_with(fake_executor with) { executor = with; }
