// Package deps keeps dependencies in go.mod that are about to be used.
package deps

import (
	_ "github.com/creack/pty"
	_ "github.com/go-telegram/bot"
	_ "github.com/slack-go/slack"
	_ "github.com/standard-webhooks/standard-webhooks/libraries/go"
	_ "github.com/yuin/goldmark"
	_ "golang.org/x/term"
)
