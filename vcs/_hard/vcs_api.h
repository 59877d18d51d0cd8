/* The C interface of the hard machine: what the C++ thread pool (pool.cpp) may do with machines that Python made.
 *
 * `vcs._hard.machine.api()` gives a PyCapsule named VCS_API_NAME that holds a VcsApi; `machine.handle(core)` gives one
 * named VCS_HANDLE_NAME that holds the machine of a Core. The Core must outlive its handle. No function touches a
 * Python object, so none needs the GIL; two threads must not use one machine at the same time, any number of
 * machines may run on any threads. Sections are those of spec/environment.md.
 */
#ifndef VCS_API_H
#define VCS_API_H

#include <stdint.h>

#define VCS_API_VERSION 3
#define VCS_API_NAME "vcs._hard.machine.api"
#define VCS_HANDLE_NAME "vcs._hard.machine.handle"

typedef struct VcsApi {
    uint32_t version;
    /* Switch the console off and on (loadROM without its boot: 1.2, 4.1). Pictures are black again. */
    void (*power_on)(void* machine, uint32_t system_seed, uint32_t random_seed);
    /* reset_game (4.1). 0, or a fault: 1 the mode was not reached, 2 the game's program is damaged. */
    int32_t (*boot)(void* machine);
    /* Mode (from the next boot) and difficulty (from the next frame), 5.5. */
    void (*configure)(void* machine, int32_t mode, int32_t difficulty);
    /* One agent step (6.2), action 0 to 17; the reward. drawn: 1, or 0 between skip_begin and skip_end. */
    int32_t (*act)(void* machine, int32_t action, float strength, int32_t drawn);
    /* Steps of which only the last two pictures can be seen. skip_begin keeps the state and says whether leaving
     * pictures out is possible now; act(m, ..., 0) leaves them out; skip_end(m, whole) says whether the pictures are
     * right, `whole` being whether the last two were drawn. If not, the machine is where skip_begin found it, and the
     * step must be taken again without. */
    int32_t (*skip_begin)(void* machine);
    int32_t (*skip_end)(void* machine, int32_t whole);
    int32_t (*over)(const void* machine);
    int32_t (*truncated)(const void* machine);
    int32_t (*lives)(const void* machine);
    int32_t (*frame)(const void* machine);
    int32_t (*episode_frame)(const void* machine);
    /* Rows of a picture, and whether its colours are PAL's. */
    int32_t (*rows)(const void* machine);
    int32_t (*pal)(const void* machine);
    /* uint8[rows][160], the picture shown now and the one before. They stay where they are until a frame begins. */
    const uint8_t* (*picture)(const void* machine);
    const uint8_t* (*previous)(const void* machine);
    /* Whether the next frame call goes on with the picture shown now, because the last one did not finish it. */
    int32_t (*unfinished)(const void* machine);
    /* Whether memory ran out since the last call; the machine is then not to be trusted. */
    int32_t (*failed)(void* machine);
} VcsApi;

#endif
