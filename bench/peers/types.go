package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// value is an object as a client has handed it out, and the type in expected.ts that it should have.
type value struct {
	Type  string          `json:"type"`
	Value json.RawMessage `json:"value"`
	From  string          `json:"from"`
}

// checkTypes says which values are not of their types.
func checkTypes(ctx context.Context, dir string, values []value) (wrong []string, err error) {
	if len(values) == 0 {
		return nil, nil
	}
	text, err := json.Marshal(values)
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, "node", filepath.Join(dir, "types.mjs"))
	cmd.Stdin = bytes.NewReader(text)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, err
	}
	var problems []struct{ From, Type, Message, Value string }
	if err := json.Unmarshal(out, &problems); err != nil {
		return nil, err
	}
	for _, p := range problems {
		wrong = append(wrong, fmt.Sprintf("%s: %s: %s\n%s", p.From, p.Type, p.Message, p.Value))
	}
	return wrong, nil
}
