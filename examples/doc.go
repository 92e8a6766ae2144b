// Package examples holds small programs that run as they stand, without a network or an account: the model is the built-in
// demo, which is scripted.
//
//   - manager: three bots, of which one starts the others while it still writes
//   - imagebot: a bot of your own beside a chat bot
//   - parser: the parser alone, on broken JSON in pieces
//   - plugin: the built-in agent with a hook of your own, and an observer of errors
//   - server: a workflow written in Go, called over HTTP
//
// Its test runs them all.
package examples
