// Package postgres keeps tapes in a PostgreSQL database, for those who keep their data there: several servers may share one database,
// and several installations too, each in a schema of its own.
//
// # Guarantees
//   - A batch is one transaction under the lock of its tape: it is there as a whole or not at all, and ids have no gaps.
//   - What was acknowledged is as safe as the database makes a commit. A batch whose commit was not answered, because the connection
//     broke, is looked for by its number, and written again only where it is not there: never twice.
//   - A read holds neither a connection nor a transaction while its reader works, and about a megabyte at a time.
//   - A search gives what it would give without an index. The index is the database's own (GIN), over two or three letters at a time of the
//     text as searches compare it, so that it finds 天气, too; no extension is needed.
//   - A lease is lost to its holder before it is free to others, and an append to a tape whose lease was lost here is refused.
//   - While the database is away, calls wait some seconds for it to come back; then they fail, with the code "overloaded". No error has
//     a statement or a password in it.
//
// It needs PostgreSQL 13 or newer and a database in UTF-8.
package postgres
