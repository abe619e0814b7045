/* What the fake runtime asks of the fake driver: one device, whose memory is the host's. */
#ifndef FAKE_CUDA_DEVICE_H
#define FAKE_CUDA_DEVICE_H

#include <stddef.h>

enum { FAKE_DEVICE_MEMORY = 1, FAKE_PINNED_MEMORY = 2 };

/* What is to be done with a launch: run it, keep it for a graph, or run what was kept. */
enum { FAKE_RUN = 0, FAKE_RECORD = 1, FAKE_REPLAY = 2 };

/* Runs a kernel; 0, or the CUDA error that the launch ends with. `ticket`: of a recorded launch. */
typedef int (*fake_executor)(int what, const void *image, size_t image_bytes, const char *name,
                             const unsigned *grid, void **params, long *ticket);

struct fake_module {
  char *image;
  size_t bytes;
};
struct fake_function {
  struct fake_module *module;
  char name[];
};

/* Functions return 0 or a CUDA error, whose numbers runtime and driver share. */
struct fake_device {
  int (*begin)(void);                        /* as cuInit */
  int (*open)(void);                         /* begin, then the primary context */
  int (*failed)(void);                       /* the error a kernel left behind, which nothing clears */
  int (*allocate)(void **place, size_t bytes, int kind);
  int (*release)(void *place);
  int (*kind_of)(const void *place);         /* of memory, 0 if it is not ours */
  void (*memory)(size_t *free_bytes, size_t *all_bytes);
  int (*attribute)(int number);
  const char *(*name)(void);
  int (*begin_capture)(void *stream);
  int (*end_capture)(void *stream, void **graph);
  int (*capturing)(void *stream);
  int (*settle)(void);                       /* waits for the device; refused while a graph is recorded */
  int (*replay)(void *graph);
  const char *(*error_name)(int error);
  const char *(*error_text)(int error);
  const char *(*driver_error_name)(int error);
  int (*is_open)(void);                      /* whether this process has its context */
  int (*load)(void **module, const void *image);
  int (*launch)(const struct fake_function *function, const unsigned *grid, void *stream, void **params);
  double (*queued_until)(void);              /* when the device is idle again, in seconds; at least now */
  void (*wait_until)(double seconds);
};

const struct fake_device *fake_cuda_device(void);
void fake_cuda_execute_with(fake_executor executor);
void fake_cuda_queue(double seconds); /* the device is busy for so long with what was just queued */
void fake_cuda_wait(void);            /* until it is idle */

#endif
