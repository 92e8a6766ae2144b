package logs_test

import (
	"context"
	"fmt"
	"log"
	"os"

	"github.com/lingserve/lingserve/tape"
	"github.com/lingserve/lingserve/tape/logs"
)

func Example() {
	dir, err := os.MkdirTemp("", "tapes")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	ctx := context.Background()

	store, err := logs.OpenFolder(dir, logs.FolderOptions{})
	if err != nil {
		log.Fatal(err)
	}
	t, err := tape.Open(ctx, store, dir, "telegram:42")
	if err != nil {
		log.Fatal(err)
	}
	if _, err := t.Append(ctx, tape.NewMessage("user", "天气?")); err != nil {
		log.Fatal(err)
	}
	store.Close()

	// Another process, another day.
	if store, err = logs.OpenFolder(dir, logs.FolderOptions{}); err != nil {
		log.Fatal(err)
	}
	defer store.Close()
	for s, err := range store.Sessions(ctx, tape.SessionQuery{}) {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(s.Session, s.Title, s.Entries)
	}
	// Output: telegram:42 天气? 2
}
