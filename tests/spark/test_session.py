"""What a session that Thalweg starts is set to."""

from __future__ import annotations

from thalweg.spark import compat


def test_renaming_a_file_of_a_local_checkpoint_starts_no_process(spark, tmp_path):
    """Spark's default manager asks `readlink` about both ends of each rename."""
    jvm = spark._jvm
    streaming = jvm.org.apache.spark.sql.execution.streaming
    package = streaming.checkpointing if compat.VERSION >= (4, 1) else streaming
    manager = package.CheckpointFileManager.create(
        jvm.org.apache.hadoop.fs.Path(str(tmp_path)), spark._jsparkSession.sessionState().newHadoopConf()
    )
    assert manager.getClass().getSimpleName() == "FileSystemBasedCheckpointFileManager"
