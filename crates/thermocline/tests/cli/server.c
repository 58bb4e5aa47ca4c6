// A server that begins processes without end and reads `served`, as they do. It waits for its
// children as vfork does: nobody can stop it meanwhile. Half of them take their time.

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

int main(void) {
    char buffer[4096];
    for (unsigned count = 0;; count++) {
        int file = open("served", O_RDONLY);
        if (file < 0 || read(file, buffer, sizeof buffer) <= 0)
            return 1;
        close(file);
        pid_t child = vfork();
        if (child == 0) {
            if (count % 2)
                usleep(20000);
            execlp("cat", "cat", "served", (char *)NULL);
            _exit(1);
        }
        waitpid(child, NULL, 0);
    }
}
