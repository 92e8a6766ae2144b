// Package control carries requests between replicas of the server: to cancel a run, to approve a call, to say something to an agent is asked
// of the replica that has the run or the session. What the commands are is said by who asks and who serves.
//
// # Guarantees
//   - A request is served once or not at all. Where nobody knows which, the error says so: [ErrLost] and [ErrSilent].
//   - One that has an ID is served once by a replica however often it arrives there, and whoever asks again gets the same answer: while it is
//     served, and for [Remembered] afterwards. So an answer that was lost is had by asking again.
//   - A replica that is not there is known to be so at once.
//   - An error of the handler comes back as an [*Error], with its code and its text, from wherever it comes.
//   - Requests are served at once, side by side, and a bounded number of them; what is more is refused as overloaded.
//   - A handler is not ended because the one who asks does not wait any more: what has begun is done whole, within its time.
//
// Package controltest is every implementation's test.
package control
