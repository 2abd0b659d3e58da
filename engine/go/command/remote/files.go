package remote

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/pkg/sftp"
)

// remoteFiles places files on a host. Paths there have slashes, whatever system this runs on.
type remoteFiles struct{ *sftp.Client }

// placeText writes a file; it needs a name for it, so the path may not be a folder.
func (r remoteFiles) placeText(text, remote string) error {
	found, err := r.stat(remote)
	if err != nil {
		return err
	}
	if found != nil && found.IsDir() {
		return fmt.Errorf("remote path %s is a directory; when using a text asset, remotePath must be a file path", remote)
	}
	return r.write(strings.NewReader(text), remote)
}

// place copies a file or a folder, as this table says.
//
//	source | remote is a folder | remote is missing | remote is a file
//	-------|--------------------|-------------------|-----------------
//	dir    | remote/dir         | remote/dir        | error
//	dir/   | into remote        | into remote       | error
//	file   | remote/file        | remote            | overwritten
func (r remoteFiles) place(local, remote string) error {
	source, err := os.Stat(local)
	if err != nil {
		return err
	}
	found, err := r.stat(remote)
	if err != nil {
		return err
	}
	if source.IsDir() {
		if !strings.HasSuffix(local, "/") {
			remote = path.Join(remote, filepath.Base(local))
		}
		return r.placeFolder(local, remote)
	}
	if found != nil && found.IsDir() {
		remote = path.Join(remote, filepath.Base(local))
	}
	return r.placeFile(local, remote)
}

func (r remoteFiles) placeFolder(local, remote string) error {
	return filepath.WalkDir(local, func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		inside, err := filepath.Rel(local, name)
		if err != nil {
			return err
		}
		target := path.Join(remote, filepath.ToSlash(inside))
		if !entry.IsDir() {
			return r.placeFile(name, target)
		}
		found, err := r.stat(target)
		if err != nil {
			return err
		}
		if found != nil && !found.IsDir() {
			return fmt.Errorf("remote path %s exists but is not a directory", target)
		}
		if err := r.MkdirAll(target); err != nil {
			return fmt.Errorf("making remote directory %s: %w", target, err)
		}
		return nil
	})
}

func (r remoteFiles) placeFile(local, remote string) error {
	file, err := os.Open(local)
	if err != nil {
		return err
	}
	defer file.Close()
	return r.write(file, remote)
}

// write reports the error of closing too: with concurrent writes the last of them fails there.
func (r remoteFiles) write(content io.Reader, remote string) (err error) {
	if err := r.MkdirAll(path.Dir(remote)); err != nil {
		return fmt.Errorf("making the folder of %s: %w", remote, err)
	}
	file, err := r.Create(remote)
	if err != nil {
		return fmt.Errorf("creating remote file %s: %w", remote, err)
	}
	defer func() {
		if closing := file.Close(); err == nil && closing != nil {
			err = fmt.Errorf("writing remote file %s: %w", remote, closing)
		}
	}()
	if _, err := file.ReadFrom(content); err != nil {
		return fmt.Errorf("writing remote file %s: %w", remote, err)
	}
	return nil
}

// stat gives nil for a path that does not exist.
func (r remoteFiles) stat(remote string) (fs.FileInfo, error) {
	found, err := r.Stat(remote)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("looking at remote path %s: %w", remote, err)
	}
	return found, nil
}
