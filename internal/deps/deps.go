// Package deps keeps modules in go.mod.
package deps

import (
	_ "github.com/google/jsonschema-go/jsonschema"
	_ "github.com/modelcontextprotocol/go-sdk/mcp"
	_ "golang.org/x/sys/unix"
	_ "golang.org/x/text/unicode/norm"
)
