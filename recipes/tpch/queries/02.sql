-- Who in a region sells each part of a size and a metal for the least.
with offer as (
  select *, rank() over (partition by ps_partkey order by ps_supplycost) place
  from part join partsupp on ps_partkey = p_partkey join supplier on s_suppkey = ps_suppkey
  join nation on n_nationkey = s_nationkey join region on r_regionkey = n_regionkey
  where p_size = 15 and p_type like '%BRASS' and r_name = 'EUROPE'
)
select s_acctbal, s_name, n_name, p_partkey, p_mfgr, s_address, s_phone from offer
where place = 1 order by s_acctbal desc, n_name, s_name, p_partkey limit 100;
