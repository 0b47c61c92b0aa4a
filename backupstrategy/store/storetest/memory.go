package storetest

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"maps"
	"sync"
	"time"

	"github.com/cozy-etcd/cozy-etcd/backupstrategy/store"
)

// Memory is a store in memory. It may be made to misbehave.
type Memory struct {
	mu      sync.Mutex
	objects map[string]object
	writes  int

	// BreakAfter ends every download with ErrUnavailable after so many bytes; 0 lets it through.
	BreakAfter int64
	// Fail, if not nil, is asked before each call of a verb (HEAD, GET, PUT, DELETE).
	Fail func(verb, key string) error
}

type object struct {
	content []byte
	info    store.Info
}

var _ store.Store = (*Memory)(nil)

// NewMemory is an empty store.
func NewMemory() *Memory { return &Memory{objects: map[string]object{}} }

// Keys are those of all objects, in no order.
func (m *Memory) Keys() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	keys := make([]string, 0, len(m.objects))
	for k := range m.objects {
		keys = append(keys, k)
	}
	return keys
}

// Head implements store.Reader.
func (m *Memory) Head(ctx context.Context, key string) (store.Info, error) {
	o, err := m.find(ctx, "HEAD", key)
	return o.info, err
}

// Get implements store.Reader.
func (m *Memory) Get(ctx context.Context, key string, r store.Range) (io.ReadCloser, error) {
	o, err := m.find(ctx, "GET", key)
	if err != nil {
		return nil, err
	}
	if r.ETag != "" && r.ETag != o.info.ETag || r.Offset > 0 && r.Offset >= o.info.Size {
		return nil, store.Failed("GET "+key, store.ErrChanged, "")
	}
	content := o.content[r.Offset:]
	if m.BreakAfter > 0 && int64(len(content)) > m.BreakAfter {
		broken := store.Failed("GET "+key, store.ErrUnavailable, fmt.Sprintf("the connection broke after byte %d", r.Offset+m.BreakAfter))
		return io.NopCloser(io.MultiReader(bytes.NewReader(content[:m.BreakAfter]), failing{broken})), nil
	}
	return io.NopCloser(bytes.NewReader(content)), nil
}

// Put implements store.Store.
func (m *Memory) Put(ctx context.Context, key string, c store.Content) error {
	if err := m.refuse(ctx, "PUT", key); err != nil {
		return err
	}
	content := make([]byte, c.Size)
	if _, err := io.ReadFull(io.NewSectionReader(c.Body, 0, c.Size), content); err != nil {
		return fmt.Errorf("PUT %s: %w", key, err)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.writes++
	m.objects[key] = object{content: content, info: store.Info{
		Size: c.Size, ETag: fmt.Sprintf("%q", fmt.Sprint("write-", m.writes)), Modified: time.Now(), Metadata: maps.Clone(c.Metadata),
	}}
	return nil
}

// Delete implements store.Store.
func (m *Memory) Delete(ctx context.Context, key string) error {
	if err := m.refuse(ctx, "DELETE", key); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.objects, key)
	return nil
}

func (m *Memory) find(ctx context.Context, verb, key string) (object, error) {
	if err := m.refuse(ctx, verb, key); err != nil {
		return object{}, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	o, ok := m.objects[key]
	if !ok {
		return object{}, store.Failed(verb+" "+key, store.ErrNotFound, "")
	}
	return o, nil
}

func (m *Memory) refuse(ctx context.Context, verb, key string) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("%s %s: %w", verb, key, err)
	}
	if m.Fail != nil {
		return m.Fail(verb, key)
	}
	return nil
}

type failing struct{ err error }

// Read implements io.Reader.
func (f failing) Read([]byte) (int, error) { return 0, f.err }
