//go:build unix

package channel_test

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/lingserve/lingserve/channel"
)

// mediaTree makes a media folder with what may and what may not be opened.
func mediaTree(t *testing.T) (root, outside string) {
	t.Helper()
	outside = t.TempDir()
	root = filepath.Join(outside, "media")
	write := func(name, text string) {
		t.Helper()
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.MkdirAll(filepath.Join(root, "folder"), 0o700); err != nil {
		t.Fatal(err)
	}
	png := "\x89PNG\r\n\x1a\nrest"
	write(filepath.Join(outside, "secret.png"), png)
	write(filepath.Join(root, "a.png"), png)
	write(filepath.Join(root, "folder", "a.jpg"), "\xff\xd8\xff\xe0")
	write(filepath.Join(root, "a.webm"), "\x1aE\xdf\xa3")
	write(filepath.Join(root, "a.mp3"), "ID3\x03")
	write(filepath.Join(root, "a.txt"), "just text")
	write(filepath.Join(root, "empty"), "")
	write(filepath.Join(root, "large.png"), png+strings.Repeat("x", 1000))
	for from, to := range map[string]string{"out.png": "../secret.png", "abs.png": filepath.Join(outside, "secret.png"), "in.png": "a.png", "loop": "loop"} {
		if err := os.Symlink(to, filepath.Join(root, from)); err != nil {
			t.Skip(err)
		}
	}
	if err := syscall.Mkfifo(filepath.Join(root, "pipe"), 0o600); err != nil {
		t.Skip(err)
	}
	return root, outside
}

func TestLocalMediaAreLookedAtBeforeTheyAreUsed(t *testing.T) { // CH-95
	root, outside := mediaTree(t)
	m, err := channel.OpenMediaRoot(root, 1000)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	image, video, document := channel.MediaImage, channel.MediaVideo, channel.MediaDocument
	for name, test := range map[string]struct {
		path string
		kind channel.MediaKind
		mime string
		good bool
	}{
		"an image":                    {"a.png", image, "", true},
		"an absolute path":            {filepath.Join(root, "folder", "a.jpg"), image, "image/jpeg", true},
		"a link within":               {"in.png", image, "", true},
		"a film":                      {"a.webm", video, "", true},
		"a sound":                     {"a.mp3", channel.MediaAudio, "", true},
		"a text as a document":        {"a.txt", document, "", true},
		"an image as a document":      {"a.png", document, "", true},
		"of no kind":                  {"a.txt", "", "", true},
		"no file at all":              {"", image, "", true},
		"a text as an image":          {"a.txt", image, "", false},
		"a text by its type an image": {"a.txt", "", "image/png", false},
		"a film as an image":          {"a.webm", image, "", false},
		"an image as a film":          {"a.png", video, "", false},
		"an empty image":              {"empty", image, "", false},
		"too large":                   {"large.png", image, "", false},
		"a link out of it":            {"out.png", image, "", false},
		"an absolute link out of it":  {"abs.png", image, "", false},
		"a link to itself":            {"loop", image, "", false},
		"up and out":                  {"../secret.png", image, "", false},
		"up and out by another way":   {"folder/../../secret.png", image, "", false},
		"elsewhere":                   {filepath.Join(outside, "secret.png"), image, "", false},
		"a folder":                    {"folder", document, "", false},
		"a pipe":                      {"pipe", document, "", false},
		"a device":                    {"/dev/zero", document, "", false},
		"what is not there":           {"none.png", image, "", false},
		"a NUL":                       {"a.png\x00", image, "", false},
	} {
		t.Run(name, func(t *testing.T) {
			in := channel.MediaFact{Path: test.path, Kind: test.kind, ContentType: test.mime, MessageID: "1"}
			got, err := m.Check(in)
			if test.good && (err != nil || got.Path != test.path) || !test.good && (err == nil || got.Path != "") {
				t.Errorf("the medium is %+v, %v, expected it to be good: %v", got, err, test.good)
			}
			if err != nil && strings.Contains(err.Error(), outside) {
				t.Errorf("the warning tells where files lie: %v", err)
			}
			if got.MessageID != "1" {
				t.Error("more than the path is cleared")
			}
		})
	}
	var none *channel.MediaRoot
	if got, err := none.Check(channel.MediaFact{Path: "a.png"}); err == nil || got.Path != "" {
		t.Errorf("without a folder the medium is %+v, %v", got, err)
	}
}
