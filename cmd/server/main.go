// Command server is lingserve: a server for streaming agents, and the commands around it.
package main

import (
	"os"
	_ "time/tzdata" // images without a system have no list of time zones
)

func main() { os.Exit(command(os.Args[1:], os.Stdin, os.Stdout, os.Stderr)) }
