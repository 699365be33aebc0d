// Loaded into the daemon of the bench `names` with LD_PRELOAD. Replaces the system's lookup: names that end with
// `.hang.test` occupy their thread for 8 seconds and then fail; other names under `.test` are 127.0.0.1.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <netdb.h>
#include <stddef.h>
#include <string.h>
#include <unistd.h>

static int ends_with(const char *text, const char *end) {
  size_t length = strlen(text), end_length = strlen(end);
  return length >= end_length && strcmp(text + length - end_length, end) == 0;
}

int getaddrinfo(const char *name, const char *service, const struct addrinfo *hints, struct addrinfo **found) {
  int (*system_lookup)(const char *, const char *, const struct addrinfo *, struct addrinfo **) =
      dlsym(RTLD_NEXT, "getaddrinfo");
  if (name != NULL && ends_with(name, ".hang.test")) {
    sleep(8);
    return EAI_AGAIN;
  }
  return system_lookup(name != NULL && ends_with(name, ".test") ? "127.0.0.1" : name, service, hints, found);
}
