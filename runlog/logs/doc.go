// Package logs is a [runlog.Shared] on a [store.LogEngine] and a [store.Engine]: all replicas of an installation have it in common.
//
// # Writing
//
// What runs have sent is stored in pages: a page is one entry of the replica's page log, with the new events of all runs that have some.
// One page is on its way at a time. While many runs write, a page is collected for a moment first. What is stored is shown, so the tubes
// of runs must be held.
//
// Each run has a log of its own, too. It gets a batch when the run begins, one some seconds after each time that a page has something of
// the run, and one at the end. A batch repeats what pages have of the run since the batch before. So pages are removed after some seconds,
// and a run that has ended is in its own log alone. The head of that log names the replica, its page log, and the numbers of the entries
// that the opening and the end are in.
//
// # Fencing
//
// A batch of a run's log expects the revision of the one before, and so does a page. A replica that adopts a run first writes a seal into
// the page log of the former owner, which therefore cannot write another page there. It reads what the run's log and the pages have, and
// writes a batch to the run's log that expects the revision that it has read. The former owner then finds its page log sealed, begins
// another one, and writes the events of each of its runs to that run's own log. There it learns which runs it has lost: those get
// [runlog.ErrFenced].
//
// # Following
//
// A replica that follows a run reads the run's log, then asks the owner for what pages have of the run and for all that is stored from now
// on. The owner sends a replica one message at a time with the events of all runs that it follows, after the store has acknowledged them.
// So messages depend on the number of replicas and not on that of runs. If a message fails, the owner forgets the session, and the
// following replica reads again. If the owner does not answer, the replica reads the store from time to time, until another replica has
// adopted the run.
//
// # Who runs what
//
// The table running has a record <replica>/<run> for each run that goes on. It is written before anything of the run, and removed after
// its end. It is a hint: to adopt a run is to write its next batch.
//
// # How long
//
// All is removed when it is as old as Options.Keep. A run that takes longer than that loses its beginning for those who come late, so it
// must be more than a run may take, and how long it is kept after its end.
package logs
