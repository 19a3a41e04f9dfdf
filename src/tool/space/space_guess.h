/* space_guess.h - sites that may call anything, and nearly always call one function.
 *
 * An arrival at a hook costs several times what a counted call costs. Where the counts show that an indirect
 * site of an object calls one function of the same object in three of four calls, and often, its next stub
 * tries that function first, and goes past its hook (stub_x86_64_site.h). What was guessed rightly is counted
 * in a word of its own, behind those of all objects so far, which readers add to the site's and to the pair's
 * (space_read.h); so older stubs, which know of no guess, may run for as long as a thread is in them.
 *
 * A guess stays: one that has become wrong makes each call 0.8 ns longer, where a right one spares as much.
 * Only functions of the site's own object are guessed, since another one may be unmapped without it. Fork
 * children have their parent's guesses, and count in the same words of their own blocks. Context: tool, one
 * thread. Source: our own; the idea is that of the inline caches of Deutsch and Schiffman, 1984. */
#ifndef SPACE_GUESS_H
#define SPACE_GUESS_H

#include "space.h"

/* Reads what was counted so far, and marks objects for which guesses were made: the next make is for them
 * too. False: there is nothing, or not enough, to gain. */
bool space_guess_mark(struct space *space);

#endif
