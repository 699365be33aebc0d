/*
 * load: a single-threaded, closed-loop HTTP/1.1 load generator for POST endpoints that respond with JSON or server-sent
 * events. Linux only (epoll). Connects only to loopback addresses.
 *
 *   load --url http://127.0.0.1:8787/path --body FILE --conns 50 --seconds 2 [-H 'name: value']...
 *        [--settle 2] [--ramp-ms 1000] [--watch PID] [--chunks 50] [--once 1]
 *
 * Each connection sends its next request when the previous response is complete.
 * --ramp-ms   spreads the first requests over this time.
 * --chunks N  expects streams. Each stream must contain N stamps "@@<CLOCK_MONOTONIC ns>@@", in letters from a for 0 to
 *             j for 9, and end with "data: [DONE]". Otherwise it counts as truncated. The mock upstream writes one
 *             stamp into each content chunk. A stamp older than the previous one marks the stream as reordered.
 * --once      sends one request per connection, and exits when all responses are complete or after --seconds.
 * --settle    seconds of load before the measured seconds. V8 compiles code again whenever a load begins or ends.
 * --watch     measures the CPU time of another process (all threads, in nanoseconds) during the run.
 *
 * Prints one JSON object. Times are in microseconds. Only responses that complete within the run are counted.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define HEAD_BYTES 16384
#define SUB_BUCKETS 128 /* per power of two: the error is less than 1 % */
#define BUCKETS (64 * SUB_BUCKETS)
#define CONNECT_FAILURES 1000

typedef struct {
  uint64_t n, max, bucket[BUCKETS];
} histogram;

typedef enum { CLOSED, CONNECTING, IDLE, WRITING, HEAD, BODY } state;
typedef enum { BY_LENGTH, CHUNK_SIZE, CHUNK_DATA, CHUNK_END, TRAILER } framing;

typedef struct {
  int fd, status, close_after, wants_write;
  state state;
  framing framing;
  size_t written;
  uint64_t remaining, chunk_size; /* remaining bytes of the body or chunk */
  int chunk_size_done, trailer_bytes;
  uint64_t started_at;
  unsigned chunks; /* stamps received in this response */
  uint64_t last_stamp;
  int disordered;
  int done;        /* [DONE] received */
  char *buffer;    /* the head; after it, an incomplete line of the stream */
  size_t buffered;
} connection;

static histogram latency, first_chunk, delay;
static struct sockaddr_in address;
static char *request;
static size_t request_bytes;
static int poller, ramp_ms, open_failures;
static unsigned expected_chunks;
static int streaming, once;
static unsigned open_now, open_max, ended; /* open responses and their maximum; finished connections */
static uint64_t end_at, measured_from;
static uint64_t completed, chunks_seen, errors, non2xx, truncated, reordered;

static void die(const char *what) {
  perror(what);
  exit(2);
}
static uint64_t clock_ns(clockid_t id) {
  struct timespec t;
  if (clock_gettime(id, &t) < 0) die("clock_gettime");
  return (uint64_t)t.tv_sec * 1000000000ull + (uint64_t)t.tv_nsec;
}
static uint64_t now(void) { return clock_ns(CLOCK_MONOTONIC); }

static void record(histogram *h, uint64_t value) {
  uint64_t at = value;
  if (value >= SUB_BUCKETS) {
    int power = 63 - __builtin_clzll(value);
    at = (uint64_t)(power - 6) * SUB_BUCKETS + ((value >> (power - 7)) & (SUB_BUCKETS - 1));
  }
  h->bucket[at]++;
  h->n++;
  if (value > h->max) h->max = value;
}
static double bucket_value(uint64_t at) {
  if (at < SUB_BUCKETS) return (double)at;
  return ldexp((double)(SUB_BUCKETS + at % SUB_BUCKETS) + 0.5, (int)(at / SUB_BUCKETS) - 1);
}
static double percentile_us(const histogram *h, double share) {
  uint64_t wanted = (uint64_t)ceil(share * (double)h->n), seen = 0;
  for (uint64_t at = 0; h->n && at < BUCKETS; at++)
    if ((seen += h->bucket[at]) >= wanted && h->bucket[at]) return fmin(bucket_value(at), (double)h->max) / 1e3;
  return 0;
}
static void print_histogram(const char *name, const histogram *h) {
  printf(",\"%s\":{\"n\":%llu,\"p50\":%.1f,\"p99\":%.1f,\"max\":%.1f}", name, (unsigned long long)h->n,
         percentile_us(h, .5), percentile_us(h, .99), (double)h->max / 1e3);
}

static void watch_socket(connection *c, int wants_write) {
  if (c->wants_write == wants_write) return;
  c->wants_write = wants_write;
  struct epoll_event event = {.events = EPOLLIN | (wants_write ? EPOLLOUT : 0), .data.ptr = c};
  epoll_ctl(poller, EPOLL_CTL_MOD, c->fd, &event);
}
static void open_connection(connection *c) {
  c->fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
  if (c->fd < 0) die("socket");
  int on = 1;
  setsockopt(c->fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  c->state = CONNECTING;
  c->wants_write = 1;
  struct epoll_event event = {.events = EPOLLIN | EPOLLOUT, .data.ptr = c};
  epoll_ctl(poller, EPOLL_CTL_ADD, c->fd, &event);
  if (connect(c->fd, (struct sockaddr *)&address, sizeof address) < 0 && errno != EINPROGRESS) die("connect");
}
static void reopen(connection *c) {
  close(c->fd);
  c->state = CLOSED;
  if (once) ended++;
  else if (now() < end_at) open_connection(c);
}
static void write_request(connection *c) {
  while (c->written < request_bytes) {
    ssize_t n = write(c->fd, request + c->written, request_bytes - c->written);
    if (n < 0 && errno == EAGAIN) {
      watch_socket(c, 1);
      return;
    }
    if (n < 0) {
      errors++;
      reopen(c);
      return;
    }
    c->written += (size_t)n;
  }
  watch_socket(c, 0);
  c->state = HEAD;
}
static void start_request(connection *c) {
  c->started_at = now();
  if (c->started_at >= end_at) return;
  c->written = c->buffered = 0;
  c->chunks = 0;
  c->last_stamp = 0;
  c->disordered = 0;
  c->done = c->close_after = 0;
  c->state = WRITING;
  write_request(c);
}
static void finish_answer(connection *c, uint64_t at) {
  c->state = IDLE;
  open_now--;
  if (at <= end_at) {
    if (at >= measured_from) completed++;
    if (c->status < 200 || c->status > 299) non2xx++;
    else if (streaming && (!c->done || c->chunks != expected_chunks)) truncated++;
    else if (c->disordered) reordered++;
    else if (at >= measured_from) record(&latency, at - c->started_at);
  }
  if (c->close_after || once) reopen(c);
  else start_request(c);
}

static void read_line(connection *c, const char *line, size_t bytes, uint64_t at) {
  if (bytes < 6 || memcmp(line, "data:", 5)) return;
  if (bytes <= 14 && memmem(line, bytes, "[DONE]", 6)) {
    c->done = 1;
    return;
  }
  const char *end = line + bytes, *p = line;
  /* A gateway may merge several upstream chunks into one event, so all stamps of the line count. */
  while ((p = memmem(p, (size_t)(end - p), "@@", 2))) {
    uint64_t stamp = 0;
    for (p += 2; p < end && *p >= 'a' && *p <= 'j'; p++) stamp = stamp * 10 + (uint64_t)(*p - 'a');
    if (end - p < 2 || memcmp(p, "@@", 2)) continue;
    p += 2;
    int measured = at >= measured_from;
    if (c->chunks++ == 0 && measured) record(&first_chunk, at - c->started_at);
    chunks_seen += (unsigned)measured;
    if (stamp < c->last_stamp) c->disordered = 1;
    c->last_stamp = stamp;
    if (measured && stamp <= at) record(&delay, at - stamp);
  }
}
static void read_payload(connection *c, const char *p, size_t n, uint64_t at) {
  while (streaming && n) {
    const char *newline = memchr(p, '\n', n);
    size_t bytes = newline ? (size_t)(newline - p) : n;
    if (newline && c->buffered == 0) read_line(c, p, bytes, at);
    else {
      if (c->buffered + bytes > HEAD_BYTES) bytes = HEAD_BYTES - c->buffered;
      memcpy(c->buffer + c->buffered, p, bytes);
      c->buffered += bytes;
      if (newline) {
        read_line(c, c->buffer, c->buffered, at);
        c->buffered = 0;
      }
    }
    if (!newline) return;
    n -= (size_t)(newline - p) + 1;
    p = newline + 1;
  }
}
/* Returns the length of the head, 0 if it is incomplete, or -1 if it is invalid. */
static long parse_head(connection *c) {
  char *end = memmem(c->buffer, c->buffered, "\r\n\r\n", 4);
  if (!end) return c->buffered == HEAD_BYTES ? -1 : 0;
  int framed = 0;
  c->status = atoi(c->buffer + 9);
  for (char *p = c->buffer; p < end && (p = memchr(p, '\n', (size_t)(end - p)));) {
    p++;
    if (!strncasecmp(p, "content-length:", 15)) {
      framed = 1;
      c->framing = BY_LENGTH;
      c->remaining = strtoull(p + 15, NULL, 10);
    } else if (!strncasecmp(p, "transfer-encoding:", 18)) {
      framed = 1;
      c->framing = CHUNK_SIZE;
      c->chunk_size = 0;
      c->chunk_size_done = 0;
    } else if (!strncasecmp(p, "connection: close", 17)) c->close_after = 1;
  }
  return framed ? end + 4 - c->buffer : -1;
}
static int hex_digit(char ch) {
  if (ch >= '0' && ch <= '9') return ch - '0';
  if (ch >= 'a' && ch <= 'f') return ch - 'a' + 10;
  return ch >= 'A' && ch <= 'F' ? ch - 'A' + 10 : -1;
}
/* Returns 1 if the response is complete. */
static int read_body(connection *c, const char *p, size_t n, uint64_t at) {
  if (c->framing == BY_LENGTH && c->remaining == 0) return 1;
  while (n) {
    switch (c->framing) {
    case BY_LENGTH:
    case CHUNK_DATA: {
      size_t part = n < c->remaining ? n : (size_t)c->remaining;
      read_payload(c, p, part, at);
      p += part;
      n -= part;
      c->remaining -= part;
      if (c->remaining == 0 && c->framing == BY_LENGTH) return 1;
      if (c->remaining == 0) c->framing = CHUNK_END;
      break;
    }
    case CHUNK_SIZE: {
      char ch = *p++;
      n--;
      if (ch == '\n') {
        c->framing = c->chunk_size ? CHUNK_DATA : TRAILER;
        c->remaining = c->chunk_size;
        c->chunk_size = 0;
        c->chunk_size_done = c->trailer_bytes = 0;
      } else if (!c->chunk_size_done) {
        int digit = hex_digit(ch);
        if (digit < 0) c->chunk_size_done = 1; /* a chunk extension or the CR */
        else c->chunk_size = c->chunk_size * 16 + (uint64_t)digit;
      }
      break;
    }
    case CHUNK_END:
      if (*p == '\n') c->framing = CHUNK_SIZE;
      p++;
      n--;
      break;
    case TRAILER:
      if (*p == '\n' && c->trailer_bytes == 0) return 1;
      if (*p == '\n') c->trailer_bytes = 0;
      else if (*p != '\r') c->trailer_bytes++;
      p++;
      n--;
      break;
    }
  }
  return 0;
}
static void read_answer(connection *c) {
  static char chunk[262144];
  ssize_t got = read(c->fd, chunk, sizeof chunk);
  if (got < 0 && (errno == EAGAIN || errno == EINTR)) return;
  uint64_t at = now();
  if (got <= 0 || c->state < HEAD) { /* closed, or unexpected bytes */
    if (c->state == BODY) {
      truncated++;
      open_now--;
    } else if (c->state != IDLE || got > 0) errors++;
    reopen(c);
    return;
  }
  const char *p = chunk;
  size_t n = (size_t)got;
  if (c->state == HEAD) {
    size_t room = HEAD_BYTES - c->buffered, part = n < room ? n : room, before = c->buffered;
    memcpy(c->buffer + c->buffered, p, part);
    c->buffered += part;
    long head = parse_head(c);
    if (head == 0) return;
    if (head < 0) {
      errors++;
      reopen(c);
      return;
    }
    c->state = BODY;
    if (++open_now > open_max) open_max = open_now;
    c->buffered = 0;
    p += (size_t)head - before;
    n -= (size_t)head - before;
  }
  if (read_body(c, p, n, at)) finish_answer(c, at);
}
static void handle(connection *c, uint32_t events) {
  if (c->state == CONNECTING) {
    int error = 0;
    socklen_t bytes = sizeof error;
    getsockopt(c->fd, SOL_SOCKET, SO_ERROR, &error, &bytes);
    if (error || (events & (EPOLLERR | EPOLLHUP))) {
      if (++open_failures > CONNECT_FAILURES) {
        fprintf(stderr, "load: cannot connect: %s\n", strerror(error));
        exit(3);
      }
      errors++;
      reopen(c);
      return;
    }
    watch_socket(c, 0);
    start_request(c);
    return;
  }
  if (c->state == WRITING && (events & EPOLLOUT)) write_request(c);
  if (c->state > CONNECTING && (events & (EPOLLIN | EPOLLHUP | EPOLLERR))) read_answer(c);
}

static char *read_file(const char *path, size_t *bytes) {
  FILE *file = fopen(path, "rb");
  if (!file) die(path);
  fseek(file, 0, SEEK_END);
  *bytes = (size_t)ftell(file);
  rewind(file);
  char *text = malloc(*bytes + 1);
  if (!text || fread(text, 1, *bytes, file) != *bytes) die(path);
  fclose(file);
  return text;
}
/* Fills `address`; returns the path. */
static const char *parse_url(const char *url, char *authority, size_t room) {
  char host[64];
  int port = 0, used = 0;
  if (!url || sscanf(url, "http://%63[0-9.]:%d%n", host, &port, &used) != 2 || url[used] != '/') {
    fprintf(stderr, "load: --url must be http://<IPv4>:<port>/<path>\n");
    exit(2);
  }
  address.sin_family = AF_INET;
  address.sin_port = htons((uint16_t)port);
  if (inet_pton(AF_INET, host, &address.sin_addr) != 1 || ntohl(address.sin_addr.s_addr) >> 24 != 127) {
    fprintf(stderr, "load: --url must be a loopback address\n");
    exit(2);
  }
  snprintf(authority, room, "%s:%d", host, port);
  return url + used;
}

int main(int argc, char **argv) {
  const char *url = NULL, *body_file = NULL;
  char headers[4096] = "", authority[128];
  int connections = 1;
  double seconds = 2, settle = 0;
  pid_t watched = 0;
  for (int i = 1; i + 1 < argc; i += 2) {
    const char *name = argv[i], *value = argv[i + 1];
    size_t used = strlen(headers);
    if (!strcmp(name, "--url")) url = value;
    else if (!strcmp(name, "--body")) body_file = value;
    else if (!strcmp(name, "-H")) snprintf(headers + used, sizeof headers - used, "%s\r\n", value);
    else if (!strcmp(name, "--conns")) connections = atoi(value);
    else if (!strcmp(name, "--seconds")) seconds = atof(value);
    else if (!strcmp(name, "--settle")) settle = atof(value);
    else if (!strcmp(name, "--ramp-ms")) ramp_ms = atoi(value);
    else if (!strcmp(name, "--watch")) watched = (pid_t)atoi(value);
    else if (!strcmp(name, "--once")) once = atoi(value);
    else if (!strcmp(name, "--chunks")) expected_chunks = (unsigned)atoi(value), streaming = 1;
    else {
      fprintf(stderr, "load: unknown option %s\n", name);
      return 2;
    }
  }
  const char *path = parse_url(url, authority, sizeof authority);
  if (!body_file || connections < 1 || seconds <= 0) {
    fprintf(stderr, "load: --body, --conns >= 1 and --seconds > 0 are required\n");
    return 2;
  }
  size_t body_bytes;
  char *body = read_file(body_file, &body_bytes);
  size_t room = body_bytes + sizeof headers + 4096;
  request = malloc(room);
  if (!request) die("malloc");
  int head = snprintf(request, room, "POST %s HTTP/1.1\r\nHost: %s\r\nContent-Type: application/json\r\nContent-Length: %zu\r\n%s\r\n",
                      path, authority, body_bytes, headers);
  memcpy(request + head, body, body_bytes);
  request_bytes = (size_t)head + body_bytes;

  clockid_t cpu_clock = CLOCK_PROCESS_CPUTIME_ID;
  if (watched && clock_getcpuclockid(watched, &cpu_clock)) {
    fprintf(stderr, "load: cannot read the CPU clock of process %d\n", (int)watched);
    return 2;
  }
  signal(SIGPIPE, SIG_IGN);
  struct rlimit files;
  if (getrlimit(RLIMIT_NOFILE, &files) == 0) {
    files.rlim_cur = files.rlim_max;
    setrlimit(RLIMIT_NOFILE, &files);
  }
  poller = epoll_create1(0);
  connection *all = calloc((size_t)connections, sizeof *all);
  if (!all) die("calloc");
  for (int i = 0; i < connections; i++)
    if (!(all[i].buffer = malloc(HEAD_BYTES + 1))) die("malloc");

  uint64_t begin_at = now(), cpu_begin = clock_ns(cpu_clock), cpu_before = cpu_begin;
  int settled = settle <= 0;
  measured_from = begin_at + (uint64_t)(settle * 1e9);
  end_at = measured_from + (uint64_t)(seconds * 1e9);
  int opened = 0;
  struct epoll_event events[512];
  for (uint64_t t = begin_at; t < end_at && !(once && ended == (unsigned)connections); t = now()) {
    if (!settled && t >= measured_from) {
      settled = 1;
      cpu_before = clock_ns(cpu_clock);
    }
    int target = ramp_ms ? 1 + (int)((double)connections * (double)(t - begin_at) / (ramp_ms * 1e6)) : connections;
    while (opened < connections && opened < target) open_connection(&all[opened++]);
    uint64_t left_ms = (end_at - t) / 1000000 + 1;
    int wait_ms = opened < connections ? 2 : left_ms < 500 ? (int)left_ms : 500;
    int n = epoll_wait(poller, events, 512, wait_ms);
    for (int i = 0; i < n; i++) {
      connection *c = events[i].data.ptr;
      if (c->state != CLOSED) handle(c, events[i].events);
    }
  }
  uint64_t cpu_after = clock_ns(cpu_clock);

  struct rusage own;
  getrusage(RUSAGE_SELF, &own);
  long long own_us = (own.ru_utime.tv_sec + own.ru_stime.tv_sec) * 1000000ll + own.ru_utime.tv_usec + own.ru_stime.tv_usec;
  printf("{\"seconds\":%.3f,\"completed\":%llu,\"chunks\":%llu,\"errors\":%llu,\"non2xx\":%llu,\"truncated\":%llu,"
         "\"reordered\":%llu,\"open_max\":%u",
         (double)(now() - measured_from) / 1e9, (unsigned long long)completed, (unsigned long long)chunks_seen,
         (unsigned long long)errors, (unsigned long long)non2xx, (unsigned long long)truncated,
         (unsigned long long)reordered, open_max);
  printf(",\"own_cpu_us\":%lld,\"watched_cpu_us\":%.1f,\"watched_total_us\":%.1f", own_us,
         (double)(cpu_after - cpu_before) / 1e3, (double)(cpu_after - cpu_begin) / 1e3);
  print_histogram("latency", &latency);
  print_histogram("first_chunk", &first_chunk);
  print_histogram("delay", &delay);
  puts("}");
  return 0;
}
