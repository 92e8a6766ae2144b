// Package nats is a [runlog.Shared] on NATS JetStream: all replicas of an installation have it in common.
//
// # Writing
//
// The stream RUNS has a subject for each run. A run that has sent something gets a message at once, and the next one not before that is
// stored, nor more than one in 20 ms, in the mean: whatever was sent meanwhile is in it. What is stored is shown, so that the tubes of
// runs must be held. Each message expects the one before it to be the last of its subject. That is the fence: a replica that
// stood still while another one has taken its run over is refused, and says [runlog.ErrFenced] to the run. When nobody knows
// whether a message was stored, it is sent again, and where that is refused the last message of the subject says whether
// it was this one.
//
// # Pages
//
// Where many runs write in a millisecond, what they have sent goes out as one message, a page, on a subject of the replica's own in the
// stream PAGES. The messages of a run name that subject, and a page says of each of its runs which message it follows: what is stored of a run is
// its own messages and what pages have behind the last of them. Some seconds later, or with its next word that is no plain event, a run
// has a message of its own again, with all of that in it. Each page expects the one before it to be the last of the subject: who takes a run
// over puts a seal there first, behind which no page is stored, then reads what there is, and has it in the message with
// which the run becomes its own. A replica whose page was refused, or lost, writes it once more run by run, which shows for
// each whether it has it still, and goes on with pages on another subject. Pages of which all is in messages by now are removed every few
// seconds, which costs little where nothing but pages is in a stream.
//
// Nobody listens to pages. Who follows a run at another replica says so to the one that has it, every few seconds: such a run is written by
// itself, at once, as where nobody else writes. Only where the owner does not answer, what pages have is read.
//
// # What is synced
//
// Messages are not synced one by one, unless the servers are told to: see package cluster.
//
// # Reading
//
// Messages are republished to a plain subject when they are stored. Who follows a run subscribes to that first, then reads what is
// stored, and puts the two together by the messages' sequences; what is missing is read again. There is one subscription for
// all who follow a run on a replica, and no consumer. Now and then, and when the connection was lost, it asks for the last
// message, since one that is lost behind all others is missed by nobody.
//
// # Who runs what
//
// The first message of a run says what it is, the last one who has it and whether it has ended. The stream RUNNING has a
// subject <replica>.<run> for each run that goes on, so that those of a replica that is not there any more can be found. It is a
// hint: to take a run over is to write its next message.
//
// # How long
//
// Everything goes away when it is as old as Options.Keep. A run that takes longer than that loses its beginning for those who
// come late, so that it must be more than a run may take, and how long it is kept after its end.
package nats
