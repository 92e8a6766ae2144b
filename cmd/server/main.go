// Command server is lingserve: a server for streaming agents, and the commands around it.
package main

import "os"

func main() { os.Exit(command(os.Args[1:], os.Stdin, os.Stdout, os.Stderr)) }
