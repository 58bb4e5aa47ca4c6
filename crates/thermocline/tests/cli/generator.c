// A program of known requests, for tests of `thermocline trace record`: it tells each of them on
// standard output as `R|W OFFSET LENGTH NAME`, NAME being what the file is called in the end.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sendfile.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

enum { BLOCK = 4096, BUFFER = 1 << 16 };

static char buffer[BUFFER];

static void check(long result, const char *what) {
  if (result < 0) {
    fprintf(stderr, "%s: %s\n", what, strerror(errno));
    exit(99);
  }
}

// One write call, so that the lines of several threads do not mix.
static void tell(char op, long offset, long length, const char *name) {
  char line[512];
  int size = snprintf(line, sizeof line, "%c %ld %ld %s\n", op, offset, length, name);
  check(write(1, line, size), "tell");
}

static int opened(const char *path, int flags) {
  int file = open(path, flags, 0644);
  check(file, path);
  return file;
}

static void read_at(int file, long offset, long size, const char *name) {
  char *own = malloc(size);
  long done = pread(file, own, size, offset);
  check(done, "pread");
  tell('R', offset, done, name);
  free(own);
}

static void write_at(int file, long offset, long size, const char *name) {
  long done = pwrite(file, buffer, size, offset);
  check(done, "pwrite");
  tell('W', offset, done, name);
}

static void read_next(int file, long offset, long size, const char *name) {
  char *own = malloc(size);
  long done = read(file, own, size);
  check(done, "read");
  if (done > 0) tell('R', offset, done, name);
  free(own);
}

static void write_next(int file, long offset, long size, const char *name) {
  long done = write(file, buffer, size);
  check(done, "write");
  tell('W', offset, done, name);
}

// 600 requests at random places, some unaligned.
static void random_places(void) {
  int file = opened("random", O_RDWR | O_CREAT | O_EXCL);
  unsigned state = 7;
  for (int turn = 0; turn < 300; turn++) {
    state = state * 1103515245 + 12345;
    long offset = (state >> 8) % 100 * BLOCK + (turn % 7 == 0 ? 100 : 0);
    write_at(file, offset, BLOCK, "random");
    read_at(file, offset, 1000 + state % 3000, "random");
  }
  close(file);
}

// 200 requests at positions that descriptors share, and that others do not.
static void duplicates(void) {
  int file = opened("shared", O_RDWR | O_CREAT | O_EXCL);
  for (int turn = 0; turn < 100; turn++) write_next(file, turn * BLOCK, BLOCK, "shared");
  int copies[] = {dup(file), dup2(file, 40), dup3(file, 41, O_CLOEXEC),
                  fcntl(file, F_DUPFD, 42), fcntl(file, F_DUPFD_CLOEXEC, 43)};
  check(lseek(copies[2], 0, SEEK_SET), "lseek");
  for (int turn = 0; turn < 80; turn++) read_next(copies[turn % 5], turn * BLOCK, BLOCK, "shared");
  int other = opened("shared", O_RDONLY);
  for (int turn = 0; turn < 20; turn++) read_next(other, turn * BLOCK, BLOCK, "shared");
  for (int copy = 0; copy < 5; copy++) close(copies[copy]);
  close(other);
  close(file);
}

// 160 requests: the children of a process share its positions.
static void children(void) {
  int file = opened("family", O_RDWR | O_CREAT | O_EXCL);
  for (int turn = 0; turn < 80; turn++) write_next(file, turn * BLOCK, BLOCK, "family");
  check(lseek(file, 0, SEEK_SET), "lseek");
  for (int child = 0; child < 8; child++) {
    pid_t pid = fork();
    check(pid, "fork");
    if (pid == 0) {
      for (int turn = 0; turn < 5; turn++)
        read_next(file, (child * 10 + turn) * BLOCK, BLOCK, "family");
      _exit(0);
    }
    check(waitpid(pid, NULL, 0), "waitpid");
    for (int turn = 5; turn < 10; turn++)
      read_next(file, (child * 10 + turn) * BLOCK, BLOCK, "family");
  }
  close(file);
}

static int common;

// Threads that open and close race for the same descriptors.
static void *thread(void *argument) {
  char name[16];
  snprintf(name, sizeof name, "thread%ld", (long)argument);
  close(opened(name, O_WRONLY | O_CREAT | O_EXCL));
  for (int turn = 0; turn < 40; turn++) {
    int file = opened(name, O_RDWR);
    write_at(file, turn * BLOCK, BLOCK, name);
    read_at(common, ((long)argument * 40 + turn) * BLOCK % (80 * BLOCK), BLOCK, "family");
    close(file);
  }
  return NULL;
}

// 480 requests.
static void threads(void) {
  pthread_t ids[6];
  common = opened("family", O_RDONLY);
  for (long number = 0; number < 6; number++)
    check(-pthread_create(&ids[number], NULL, thread, (void *)number), "pthread_create");
  for (int number = 0; number < 6; number++) pthread_join(ids[number], NULL);
  close(common);
}

// 120 requests: appends by two descriptors, and by one that learns to append.
static void appends(void) {
  int one = opened("appended", O_WRONLY | O_CREAT | O_EXCL | O_APPEND);
  int other = opened("appended", O_RDWR);
  long end = 0;
  for (int turn = 0; turn < 60; turn++, end += 100) write_next(one, end, 100, "appended");
  check(fcntl(other, F_SETFL, O_APPEND), "fcntl");
  for (int turn = 0; turn < 30; turn++) {
    write_next(other, end, 50, "appended");
    write_next(one, end + 50, 50, "appended");
    end += 100;
  }
  close(one);
  close(other);
}

// 120 requests from and to several pieces of memory.
static void pieces(void) {
  int file = opened("pieces", O_RDWR | O_CREAT | O_EXCL);
  char one[3000], other[5192];
  memset(one, 1, sizeof one);
  memset(other, 2, sizeof other);
  struct iovec parts[] = {{one, sizeof one}, {other, sizeof other}};
  long size = sizeof one + sizeof other;
  for (int turn = 0; turn < 30; turn++) {
    check(writev(file, parts, 2), "writev");
    tell('W', turn * size, size, "pieces");
    check(pwritev(file, parts, 2, turn * BLOCK), "pwritev");
    tell('W', turn * BLOCK, size, "pieces");
    check(preadv(file, parts, 2, turn * 512), "preadv");
    tell('R', turn * 512, size, "pieces");
  }
  check(lseek(file, 0, SEEK_SET), "lseek");
  for (int turn = 0; turn < 30; turn++) {
    check(preadv2(file, parts, 2, -1, 0), "preadv2");
    tell('R', turn * size, size, "pieces");
  }
  close(file);
}

// 160 requests, two a call, fewer where the kernel has no such call for this file system.
static void between_files(void) {
  int source = opened("random", O_RDONLY);
  int target = opened("copied", O_RDWR | O_CREAT | O_EXCL);
  for (int turn = 0; turn < 40; turn++) {
    off_t from = turn * BLOCK, to = turn * 2 * BLOCK;
    long done = copy_file_range(source, &from, target, &to, BLOCK, 0);
    if (done < 0) break;
    tell('R', turn * BLOCK, done, "random");
    tell('W', turn * 2 * BLOCK, done, "copied");
  }
  check(lseek(target, 0, SEEK_SET), "lseek");
  for (int turn = 0; turn < 40; turn++) {
    off_t from = turn * BLOCK;
    long done = sendfile(target, source, &from, BLOCK);
    check(done, "sendfile");
    tell('R', turn * BLOCK, done, "random");
    tell('W', turn * BLOCK, done, "copied");
  }
  close(source);
  close(target);
}

// 24 requests: what a file is called changes, and what it is does not.
static void names(void) {
  int file = opened("before", O_RDWR | O_CREAT | O_EXCL);
  write_at(file, 0, BLOCK, "after");
  check(rename("before", "after"), "rename");
  write_at(file, BLOCK, BLOCK, "after");
  int again = opened("after", O_RDONLY);
  read_at(again, 0, BLOCK, "after");
  check(link("after", "linked"), "link");
  int linked = opened("linked", O_RDONLY);
  read_at(linked, BLOCK, BLOCK, "after");
  close(file), close(again), close(linked);
  // Four files of one name, one after the other.
  for (int turn = 0; turn < 4; turn++) {
    int journal = opened("journal", O_RDWR | O_CREAT | O_EXCL);
    write_at(journal, 0, BLOCK, "journal");
    check(unlink("journal"), "unlink");
    read_at(journal, 0, BLOCK, "journal");
    write_at(journal, BLOCK, BLOCK, "journal");
    close(journal);
  }
  check(chdir("sub"), "chdir");
  int odd = opened("odd \"na>me\n<x>, 7) = 1 \303\274", O_RDWR | O_CREAT | O_EXCL);
  check(chdir(".."), "chdir");
  write_at(odd, 0, BLOCK, "sub/odd \"na>me\\n<x>, 7) = 1 \303\274");
  for (int turn = 0; turn < 7; turn++)
    read_at(odd, turn * 512, 512, "sub/odd \"na>me\\n<x>, 7) = 1 \303\274");
  close(odd);
}

// 80 requests of a program that is started with its input and output redirected.
static void programs(const char *self) {
  extern char **environ;
  int input = opened("family", O_RDONLY);
  int closed = opened("random", O_RDONLY | O_CLOEXEC);
  int output = opened("output", O_WRONLY | O_CREAT | O_EXCL | O_APPEND);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, input, 0);
  posix_spawn_file_actions_adddup2(&actions, output, 30);
  char *words[] = {(char *)self, "--started", NULL};
  pid_t pid;
  check(-posix_spawn(&pid, self, &actions, NULL, words, environ), "posix_spawn");
  check(waitpid(pid, NULL, 0), "waitpid");
  read_next(input, 40 * BLOCK, BLOCK, "family");
  close(input), close(closed), close(output);
}

static void started(void) {
  for (int turn = 0; turn < 40; turn++) {
    read_next(0, turn * BLOCK, BLOCK, "family");
    write_next(30, turn * 700, 700, "output");
  }
}

int main(int count, char **words) {
  if (count > 1 && strcmp(words[1], "--started") == 0) {
    started();
    return 0;
  }
  check(chdir(words[1]), "chdir");
  random_places();
  duplicates();
  children();
  threads();
  appends();
  pieces();
  between_files();
  names();
  programs(words[0]);
  return 7;
}
