// The precompiled header belongs to this file.
