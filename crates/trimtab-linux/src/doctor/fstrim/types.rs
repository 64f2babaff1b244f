//! Filesystem types as libmount classifies them.

use crate::doctor::is_listed;

/// True for types that libmount treats as filesystems without a device.
pub fn is_pseudo(fs_type: &str) -> bool {
    const TYPES: &str = "
        anon_inodefs apparmorfs autofs bdev binder binfmt_misc bpf cgroup cgroup2 configfs cpuset debugfs devfs
        devpts devtmpfs dlmfs dmabuf drm efivarfs fuse fuse.archivemount fuse.avfsd fuse.dumpfs fuse.encfs
        fuse.gvfs-fuse-daemon fuse.gvfsd-fuse fuse.kio-fuse fuse.lxcfs fuse.portal fuse.rofiles-fuse
        fuse.vmware-vmblock fuse.xwmfs fusectl hugetlbfs ipathfs mqueue nfsd none nsfs overlay pidfs pipefs proc
        pstore ramfs resctrl rootfs rpc_pipefs securityfs selinuxfs smackfs sockfs spufs sysfs tmpfs tracefs vboxsf
        virtiofs";
    is_listed(TYPES, fs_type)
}

/// True for types that libmount treats as network filesystems.
pub fn is_network(fs_type: &str) -> bool {
    const TYPES: &str = "cifs smb3 smbfs afs ncpfs glusterfs fuse.curlftpfs fuse.sshfs";
    is_listed(TYPES, fs_type) || fs_type.starts_with("nfs") || fs_type.starts_with("9p")
}
