package agent

import (
	"io"
	"os"
	"strings"
)

// defaultInstructions are the instructions of an agent without others.
const defaultInstructions = "You are a helpful assistant. Answer in the language of the question. " +
	"Use the tools you have where they help, and say so when something cannot be found out or done. " +
	"Earlier parts of a conversation may stand in an anchor, as a summary or a state: take it for what has been agreed so far."

// maxAgentsFile bounds what is read of a workspace's AGENTS.md, in bytes.
const maxAgentsFile = 64 << 10

// readAgentsFile returns the text of a workspace's AGENTS.md. A file that is missing, not regular, or outside of the workspace is empty.
func readAgentsFile(workspace string) string {
	root, err := os.OpenRoot(workspace)
	if err != nil {
		return ""
	}
	defer root.Close()
	// It is checked before it is opened, because opening a pipe would wait for its writer.
	if info, err := root.Stat("AGENTS.md"); err != nil || !info.Mode().IsRegular() {
		return ""
	}
	file, err := root.Open("AGENTS.md")
	if err != nil {
		return ""
	}
	defer file.Close()
	text, err := io.ReadAll(io.LimitReader(file, maxAgentsFile))
	if err != nil {
		return ""
	}
	return strings.TrimSpace(strings.ToValidUTF8(string(text), ""))
}
