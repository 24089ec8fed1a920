"""What a session that Thalweg starts is set to."""

from __future__ import annotations


def test_renaming_a_file_of_a_local_checkpoint_starts_no_process(spark, tmp_path):
    """Spark's default manager asks `readlink` about both ends of each rename."""
    jvm = spark._jvm
    manager = jvm.org.apache.spark.sql.execution.streaming.checkpointing.CheckpointFileManager.create(
        jvm.org.apache.hadoop.fs.Path(str(tmp_path)), spark._jsparkSession.sessionState().newHadoopConf()
    )
    assert manager.getClass().getSimpleName() == "FileSystemBasedCheckpointFileManager"
