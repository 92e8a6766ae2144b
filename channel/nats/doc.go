// Package nats keeps what channels share in NATS JetStream, for several replicas of the server. It is named after its folder, as the
// other stores are; the client's packages have other names in it.
//
// # What is stored
//
// The journal is one stream, INBOX, with a subject for each event, which is made of a hash of its key:
//
//	<prefix>.inbox.<hash>
//
// An event's first message is its raw form. Each step that it takes is another message behind the first, which has a header alone: who
// has it, how far it is, and what is known of its answer. The last one says that it is settled, takes the place of all before it, and
// goes away when the key is to be forgotten.
//
// The outbox is one stream, OUTBOX, in the same way: a subject for each block, whose first message has the block and whose others are the steps
// that it takes, the last of which says for a minute that it has gone. Answers to webhooks' messages are the last message of a subject each, RESULTS.
//
// Windows, sessions, pairs and what channels have learned of their platforms are keys of buckets, which are changed at the revision
// that was read.
//
// # Guarantees of a journal
//   - An event that was accepted is stored, and synced where the servers sync; if that is not known, Accept fails, and where it was
//     stored all the same it runs once, whoever brings it again.
//   - An event has an owner: the replica that has accepted it, until that dies or ends. Nobody else claims it before. Who waits
//     for such events ([Journal.Inherit]) gets them within a second of the moment at which the others take the owner for dead.
//   - An event may be given to the replica that runs another one of its conversation ([Journal.Give]): its owner is that one from then on.
//   - A step is stored only behind the one that its writer has seen. So a claim that is outdated does nothing: it cannot
//     settle, cannot release, and cannot mark that something is about to be sent, without which nothing is sent.
//   - A turn in which its replica died is an attempt of its event, as a release is.
//   - After a step without an answer the journal asks which message is the last. No step is taken twice.
//   - What waits is bounded, in events and bytes; beyond it nothing is accepted, with [channel.ErrJournalFull].
//   - While the servers are away, calls wait some seconds for them; then they fail with the code "overloaded". That a claim has
//     ended is kept and stored when they are back.
//
// # Guarantees of an outbox
//   - A block is the replica's that has stored its last step. Another one stores the next where that has died or ended, and each step only
//     behind the one that its writer has seen: so nothing is sent by two but what receivers know again.
//   - Whoever puts a block in knows of all that are before it for the same target, at any replica.
//   - Of a block of which it is not known whether it was stored it is stored that it has gone, before another one is put in.
//   - What waits is bounded, in blocks by the outbox and in bytes here; what goes can always go.
package nats
