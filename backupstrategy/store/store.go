// Package store is the port to an object store: what a restore needs of S3 and nothing more. Adapters live below it; storetest says in tests what every
// adapter must do.
package store

import (
	"context"
	"io"
	"time"
)

// Info is what a store says of an object without giving its content.
type Info struct {
	Size     int64 // bytes
	ETag     string
	Modified time.Time
	Metadata map[string]string // user metadata; keys in lower case
}

// Range says which bytes of which version of an object are wanted. The zero Range is the whole object, whatever its version.
type Range struct {
	Offset int64  // first byte; must be below the object's size unless it is 0
	ETag   string // refuse with ErrChanged unless the object still has it; an empty or a weak one accepts any
}

// Reader reads one bucket.
type Reader interface {
	// Head tells size and ETag.
	Head(ctx context.Context, key string) (Info, error)
	// Get streams from an offset to the end. The caller closes. An end before the object's end is an error of Read, never io.EOF.
	Get(ctx context.Context, key string, r Range) (io.ReadCloser, error)
}

// Store reads and writes one bucket. Its errors carry a class and a reason of package fault, and one of this package's sentinels. They name bucket, key
// and endpoint, and hold no credentials.
type Store interface {
	Reader
	// Put writes an object whole or not at all, in bounded memory. An object of that key is replaced.
	Put(ctx context.Context, key string, content Content) error
	// Delete removes an object. An absent one is no error.
	Delete(ctx context.Context, key string) error
}

// Content of an object that is about to be written. Parts of it may be read more than once and at the same time.
type Content struct {
	Body     io.ReaderAt
	Size     int64
	Metadata map[string]string
}
