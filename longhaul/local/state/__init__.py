"""What outlives the embedded AWS: kept on disk as it changes, and put back at the next start.

moto keeps everything in memory, and has no persistence of its own. Here each change of what clients
store is written down before the client gets its answer: objects, uploads and buckets, items,
messages, tables of the catalog, secrets, executions, log events. Resources come from the
template at each start, under the same names (`names`). So a process that is killed loses nothing
that it has answered. Executions, tasks and functions that ran are gone: an execution ends as
ABORTED, and its event is published, as when AWS ends one.

Each module has `apply`, which makes moto report what changes, and `restore`. `store` has the files:
a table of things, pickled, by kind and name, and a file for the content of each object.
"""
