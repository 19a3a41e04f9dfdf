/* calls_linkage.h - the library that calls_linkage calls. */
#ifndef CALLS_LINKAGE_H
#define CALLS_LINKAGE_H

int linkage_plain(int value);
int linkage_ifunc(int value); /* is linkage_chosen */
int linkage_caller(int value);
int linkage_back(int value); /* in the program */
void linkage_print(void);

#endif
