# shellcheck shell=bash source=tests/diagnosis/common.sh
# git makes a repository, commits, branches, merges and packs it.
. "$(dirname "$0")/../common.sh"
cat > flow.sh << 'S'
export HOME=$PWD GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@b GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a@b
mkdir repository; cd repository
git init -q -b main
for i in $(seq 40); do seq $i 4000 > f$i; done
git add . && git commit -qm one
git checkout -qb other && seq 99 > more && git add more && git commit -qm two
git checkout -q main && git merge -q other && git gc -q
git log --oneline > ../log
S
traced bash flow.sh
