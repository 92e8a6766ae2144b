// Package attacks contains no product code. Its tests attack the program as users get it, with agents, tools, workflows, channels and a data
// folder, through its sockets, and look from outside at what it answers, logs, writes to disk and asks of others. What one package can show
// is tested in that package.
//
//	LINGSERVE_NIGHTLY=1 go test -tags nightly ./internal/attacks
//	go test -tags nightly ./internal/attacks -program /path/to/lingserve   a program that exists, such as a released one
package attacks
