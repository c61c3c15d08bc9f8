package prove
