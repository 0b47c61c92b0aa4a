package s3

import (
	"context"
	"crypto/md5" //nolint:gosec // Content-MD5 is a header of S3, not a proof against an attacker
	"encoding/base64"
	"io"
	"net/http"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awss3 "github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"
	"golang.org/x/sync/errgroup"

	"github.com/cozy-etcd/cozy-etcd/backupstrategy/store"
)

const (
	maxParts     = 10_000
	abortTimeout = 30 * time.Second
)

// Put implements store.Store. Parts are sections of the caller's body that are read while they are sent, so no part is held in memory. The SDK's own upload
// managers are not used: they copy parts into buffers, have a checksum switch of their own besides the client's, and cannot send Content-MD5.
func (s *Store) Put(ctx context.Context, key string, c store.Content) error {
	var err error
	if c.Size <= s.config.PartSize {
		err = s.putOne(ctx, key, c)
	} else {
		err = s.putParts(ctx, key, c)
	}
	if err != nil {
		return s.failure(ctx, http.MethodPut, key, err)
	}
	return nil
}

func (s *Store) putOne(ctx context.Context, key string, c store.Content) error {
	body := io.NewSectionReader(c.Body, 0, c.Size)
	sum, err := contentMD5(body)
	if err != nil {
		return err
	}
	_, err = s.client.PutObject(ctx, &awss3.PutObjectInput{
		Bucket: &s.config.Bucket, Key: &key, Body: body, ContentLength: &c.Size, ContentMD5: &sum, Metadata: c.Metadata,
	})
	return err
}

func (s *Store) putParts(ctx context.Context, key string, c store.Content) (err error) {
	started, err := s.client.CreateMultipartUpload(ctx, &awss3.CreateMultipartUploadInput{Bucket: &s.config.Bucket, Key: &key, Metadata: c.Metadata})
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			s.abort(ctx, key, started.UploadId)
		}
	}()
	size := partSize(c.Size, s.config.PartSize)
	parts := make([]types.CompletedPart, (c.Size+size-1)/size)
	group, groupCtx := errgroup.WithContext(ctx)
	group.SetLimit(defaultUploads)
	for i := range parts {
		group.Go(func() error {
			offset := int64(i) * size
			section := io.NewSectionReader(c.Body, offset, min(size, c.Size-offset))
			number := int32(i + 1) //nolint:gosec // at most maxParts
			etag, err := s.putPart(groupCtx, key, started.UploadId, number, section)
			parts[i] = types.CompletedPart{ETag: etag, PartNumber: &number}
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return err
	}
	_, err = s.client.CompleteMultipartUpload(ctx, &awss3.CompleteMultipartUploadInput{
		Bucket: &s.config.Bucket, Key: &key, UploadId: started.UploadId, MultipartUpload: &types.CompletedMultipartUpload{Parts: parts},
	})
	return err
}

func (s *Store) putPart(ctx context.Context, key string, upload *string, number int32, body *io.SectionReader) (etag *string, err error) {
	sum, err := contentMD5(body)
	if err != nil {
		return nil, err
	}
	out, err := s.client.UploadPart(ctx, &awss3.UploadPartInput{
		Bucket: &s.config.Bucket, Key: &key, UploadId: upload, PartNumber: &number, Body: body, ContentLength: aws.Int64(body.Size()), ContentMD5: &sum,
	})
	if err != nil {
		return nil, err
	}
	return out.ETag, nil
}

// abort frees the parts of an upload that failed, also when the caller's context is over: nothing else ever lists them.
func (s *Store) abort(ctx context.Context, key string, upload *string) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), abortTimeout)
	defer cancel()
	_, _ = s.client.AbortMultipartUpload(ctx, &awss3.AbortMultipartUploadInput{Bucket: &s.config.Bucket, Key: &key, UploadId: upload})
}

// partSize grows the wanted size, in steps of 1 MiB, until the object has no more parts than S3 allows.
func partSize(object, wanted int64) int64 {
	const step = 1 << 20
	least := (object + maxParts - 1) / maxParts
	if least <= wanted {
		return wanted
	}
	return (least + step - 1) / step * step
}

func contentMD5(body io.ReadSeeker) (string, error) {
	h := md5.New() //nolint:gosec // see the import
	if _, err := io.Copy(h, body); err != nil {
		return "", &localError{err}
	}
	if _, err := body.Seek(0, io.SeekStart); err != nil {
		return "", &localError{err}
	}
	return base64.StdEncoding.EncodeToString(h.Sum(nil)), nil
}
