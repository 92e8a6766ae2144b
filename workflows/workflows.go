// Package workflows holds the workflows that come with the server, so that a binary that is run from anywhere has them. They
// are ordinary files: a user's file replaces the one whose workflow has the same name.
package workflows

import "embed"

// Files are the shipped workflows and the prompts that they name. Open them with flow.OpenFS.
//
//go:embed *.yaml prompts
var Files embed.FS
