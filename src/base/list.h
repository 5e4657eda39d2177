/* Intrusive doubly linked list. A list head is a node that points to itself when empty. */
#ifndef HKI_BASE_LIST_H
#define HKI_BASE_LIST_H

#include <stdbool.h>
#include <stddef.h>

typedef struct hki_node {
    struct hki_node *next, *previous;
} hki_node;

static inline void hki_list_init(hki_node *head)
{
    head->next = head->previous = head;
}

static inline bool hki_list_empty(const hki_node *head)
{
    return head->next == head;
}

static inline void hki_list_append(hki_node *head, hki_node *node)
{
    node->previous = head->previous;
    node->next = head;
    head->previous->next = node;
    head->previous = node;
}

/* Leaves the node pointing to itself, so that removing twice is harmless. */
static inline void hki_list_remove(hki_node *node)
{
    node->previous->next = node->next;
    node->next->previous = node->previous;
    node->next = node->previous = node;
}

#define hki_list_entry(node, type, member) ((type *)(void *)((char *)(node)-offsetof(type, member)))
#define hki_list_each(node, head) for (hki_node *node = (head)->next; node != (head); node = node->next)
/* The current node may be removed. */
#define hki_list_each_safe(node, following, head)                                                                      \
    for (hki_node *node = (head)->next, *following = node->next; node != (head);                                       \
         node = following, following = node->next)

#endif
