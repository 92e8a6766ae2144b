package flow

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/lingserve/lingserve/internal/backoff"
	"github.com/lingserve/lingserve/internal/yaml"
)

// Registry holds the workflows that can be run. It is safe for concurrent use; its zero value holds none and reads no folder.
type Registry struct {
	open      func() (fs.FS, io.Closer, error) // the folder; nil for none
	name      string                           // the folder's, for errors
	providers []string                         // see ParseSpec

	loading sync.Mutex // one Reload at a time; guards what is read
	read    map[string]stamp

	mu       sync.RWMutex
	defaults map[string]Workflow // by name
	files    map[string]Workflow // by file name
	code     map[string]Workflow // registered, by name
	all      map[string]Workflow // by name: those above, of which a later one replaces an earlier one
}

// stamp tells versions of a file apart; that of a file that is not there is zero.
type stamp struct {
	modified time.Time
	size     int64
	mode     fs.FileMode
}

// Open reads every *.yaml, *.yml and *.json in dir (which may be "" for none). Files that a workflow names are read only
// inside dir, through an [os.Root]; providers are as for [ParseSpec]. The error joins the problems of all files; the registry holds those
// that are well. Files whose workflows have the same name are not: neither is in the registry.
func Open(dir string, providers ...string) (*Registry, error) {
	r := &Registry{name: dir, providers: providers}
	if dir == "" {
		return r, nil
	}
	// Opened for each reading, so that a folder that was put in place of another is the one that is read.
	r.open = func() (fs.FS, io.Closer, error) {
		root, err := os.OpenRoot(dir)
		if err != nil {
			if e, ok := errors.AsType[*fs.PathError](err); ok {
				err = e.Err
			}
			return nil, nil, &FileError{File: dir, Message: "cannot open the workflow folder: " + err.Error()}
		}
		return root.FS(), root, nil
	}
	return r, r.Reload()
}

// OpenFS is Open for files that are embedded in the program, or come from elsewhere; name stands for their folder in errors.
func OpenFS(name string, files fs.FS, providers ...string) (*Registry, error) {
	r := &Registry{name: name, providers: providers}
	r.open = func() (fs.FS, io.Closer, error) { return files, io.NopCloser(nil), nil }
	return r, r.Reload()
}

// Register adds a workflow, or replaces one of the same name. It goes before a file with that name and survives a reload.
func (r *Registry) Register(w Workflow) { r.register(&r.code, w) }

// RegisterDefault adds a workflow that is there as long as no other one of that name is, neither from a file nor registered.
func (r *Registry) RegisterDefault(w Workflow) { r.register(&r.defaults, w) }

func (r *Registry) register(in *map[string]Workflow, w Workflow) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if *in == nil {
		*in = map[string]Workflow{}
	}
	(*in)[w.Info().Name] = w
	r.index()
}

// index makes all anew; r.mu is held. Readers keep the map that they have: it is never changed.
func (r *Registry) index() {
	all := map[string]Workflow{}
	maps.Copy(all, r.defaults)
	for _, w := range r.files {
		all[w.Info().Name] = w
	}
	maps.Copy(all, r.code)
	r.all = all
}

// Get finds a workflow by name.
func (r *Registry) Get(name string) (Workflow, bool) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	w, ok := r.all[name]
	return w, ok
}

// All lists the workflows by name.
func (r *Registry) All() []Workflow {
	r.mu.RLock()
	all := r.all
	r.mu.RUnlock()
	var out []Workflow
	for _, name := range slices.Sorted(maps.Keys(all)) {
		out = append(out, all[name])
	}
	return out
}

// Reload reads the folder again and puts what it holds in force at once. A broken file keeps its old workflow in force and
// is in the error; a file that is gone takes its workflow with it (FL-03). Where two files give their workflows the same name, the
// one that had it before keeps it.
func (r *Registry) Reload() error {
	r.loading.Lock()
	defer r.loading.Unlock()
	if r.open == nil {
		return nil
	}
	files, closer, err := r.open()
	if err != nil {
		r.read = nil
		return err
	}
	defer closer.Close()
	reader := &recorder{files: files, read: map[string]stamp{}}
	names, err := workflowFiles(files)
	if err != nil {
		return &FileError{File: r.name, Message: "cannot read the workflow folder: " + err.Error()}
	}
	r.mu.RLock()
	old := r.files
	r.mu.RUnlock()
	loaded, named := map[string]Workflow{}, map[string][]string{} // by file; files by their workflow's name
	var errs []error
	for _, name := range names {
		w, err := r.load(name, reader)
		if err != nil {
			errs = append(errs, err)
			if w = old[name]; w == nil {
				continue
			}
		}
		loaded[name] = w
		named[w.Info().Name] = append(named[w.Info().Name], name)
		if sharing := named[w.Info().Name]; len(sharing) > 1 {
			errs = append(errs, &FileError{File: path.Join(r.name, name), Line: 1, Column: 1, Message: fmt.Sprintf("the name %q is already used by %s; choose another name", w.Info().Name, sharing[0])})
		}
	}
	for name, sharing := range named {
		for _, file := range sharing {
			if len(sharing) > 1 && (old[file] == nil || old[file].Info().Name != name) {
				delete(loaded, file)
			}
		}
	}
	r.read = reader.read
	r.mu.Lock()
	defer r.mu.Unlock()
	r.files = loaded
	r.index()
	return errors.Join(errs...)
}

func (r *Registry) load(name string, files *recorder) (Workflow, error) {
	file := path.Join(r.name, name)
	text, err := files.ReadFile(name)
	if err != nil {
		if e, ok := errors.AsType[*fs.PathError](err); ok {
			err = e.Err
		}
		return nil, &FileError{File: file, Message: "cannot read the file: " + err.Error()}
	}
	return ParseSpec(file, text, files, r.providers...)
}

// workflowFiles lists the files of the folder that are workflows; hidden ones are an editor's.
func workflowFiles(files fs.FS) ([]string, error) {
	entries, err := fs.ReadDir(files, ".")
	if err != nil {
		if e, ok := errors.AsType[*fs.PathError](err); ok {
			err = e.Err
		}
		return nil, err
	}
	var names []string
	for _, e := range entries {
		switch path.Ext(e.Name()) {
		case ".yaml", ".yml", ".json":
			if !e.IsDir() && !strings.HasPrefix(e.Name(), ".") {
				names = append(names, e.Name())
			}
		}
	}
	return names, nil
}

// recorder reads files and remembers which, so that a change of any is seen. It reads only ordinary files, and of each only
// a little more than is allowed: a pipe would wait for ever, and a device has no end.
type recorder struct {
	files fs.FS
	read  map[string]stamp
}

func (r *recorder) ReadFile(name string) ([]byte, error) {
	r.read[name] = stampOf(r.files, name)
	info, err := fs.Stat(r.files, name)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, errors.New("it is not a regular file")
	}
	f, err := r.files.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, yaml.MaxBytes+1))
}

func stampOf(files fs.FS, name string) stamp {
	info, err := fs.Stat(files, name)
	if err != nil {
		return stamp{}
	}
	return stamp{info.ModTime(), info.Size(), info.Mode()}
}

// watchInterval is how often Watch looks. Looking costs a stat for each file; an author who saves a file does not notice the wait.
const watchInterval = time.Second

// Watch reloads whenever a workflow's file, or a file that a workflow names, changes, until ctx ends; report is told the
// outcome of each reload, nil where all is well. It looks at the files once a second.
func (r *Registry) Watch(ctx context.Context, report func(error)) {
	if r.open == nil {
		return
	}
	for backoff.Sleep(ctx, watchInterval) == nil {
		if r.changed() {
			report(r.Reload())
		}
	}
}

// changed says whether the files differ from those of the last reading.
func (r *Registry) changed() bool {
	r.loading.Lock()
	defer r.loading.Unlock()
	files, closer, err := r.open()
	if err != nil {
		return r.read != nil // the folder has gone: said once
	}
	defer closer.Close()
	names, err := workflowFiles(files)
	if err != nil {
		return false
	}
	for _, name := range names {
		if _, ok := r.read[name]; !ok {
			return true
		}
	}
	for name, was := range r.read {
		if stampOf(files, name) != was {
			return true
		}
	}
	return false
}
