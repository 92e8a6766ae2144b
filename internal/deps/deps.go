// Package deps keeps modules in go.mod.
package deps

import _ "golang.org/x/net/html"
