// Compiled for the precompiled header that it is given.
