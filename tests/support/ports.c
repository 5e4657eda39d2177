#include "ports.h"

#include "net/socket.h"

#include <unistd.h>

uint16_t free_port(void)
{
    hki_address any = {.family = AF_INET, .bytes = {127, 0, 0, 1}};
    int fd = hki_socket_listen(&any, 0);
    if (fd < 0)
        return 0;
    close(fd);
    return any.port;
}
