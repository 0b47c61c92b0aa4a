package conformance

import (
	"bufio"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"

	"github.com/cozy-etcd/cozy-etcd/controller/api"
	etcdv1alpha2 "github.com/cozy-etcd/cozy-etcd/controller/api/etcdoperator/v1alpha2"
)

const transcriptsVariable = "TRANSCRIPTS"

// TestMirrorsReadTheRealOperator decodes every object in recorded histories of the real operator strictly: a field that
// the mirror does not have is an error.
func TestMirrorsReadTheRealOperator(t *testing.T) {
	dir := os.Getenv(transcriptsVariable)
	if dir == "" {
		t.Skipf("%s is not set: recordings of the real operator are not part of this repository", transcriptsVariable)
	}
	if !filepath.IsAbs(dir) {
		dir = filepath.Join(root(), dir)
	}
	files, err := filepath.Glob(filepath.Join(dir, "*.jsonl"))
	require.NoError(t, err)
	require.NotEmpty(t, files)
	codec := serializer.NewCodecFactory(api.NewScheme(), serializer.EnableStrict).UniversalDeserializer()
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			require.Positive(t, readStrictly(t, file, codec))
		})
	}
}

func readStrictly(t *testing.T, file string, codec runtime.Decoder) (read int) {
	t.Helper()
	f, err := os.Open(file)
	require.NoError(t, err)
	defer func() { _ = f.Close() }()
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 1<<22)
	for lines.Scan() {
		var line struct{ Object json.RawMessage }
		require.NoError(t, json.Unmarshal(lines.Bytes(), &line))
		obj := &unstructured.Unstructured{}
		require.NoError(t, json.Unmarshal(line.Object, &obj.Object))
		if obj.GroupVersionKind().Group != etcdv1alpha2.Group {
			continue
		}
		_, _, err := codec.Decode(line.Object, nil, nil)
		require.NoError(t, err)
		read++
	}
	require.NoError(t, lines.Err())
	return read
}
